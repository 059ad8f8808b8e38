"""The MCP resources: the SQL schema, the metric catalogue, GPU facts, one workload's summary, and the guide."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tomli
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension as ProtocolExtension
from mcp.server.extension import MethodBinding, ResourceBinding
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts.base import Prompt, PromptArgument
from mcp.server.mcpserver.resources.types import FunctionResource
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, PaginatedRequestParams, ReadResourceRequestParams

from ...analysis import tables
from ...analysis.base.problems import NotFound, Problem
from ...analysis.base.text import inert, shorten
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue import targets
from ...analysis.store.store import Store
from ...tools.rendering import render
from .calls import Call, Calls
from .toolbox import OK

_PART = re.compile(r"[^\S\n]*\n?[^\S\n]*\{\{(!?)(\w+):(\s.*?)\}\}", re.DOTALL)


def offered_only(text: str, tools: Collection[str]) -> str:
    """``text`` without the parts for tools that are not offered."""
    return _PART.sub(lambda part: part[3].rstrip() if (part[2] in tools) != bool(part[1]) else "", text)


def add_resources(mcp: MCPServer[Any], store: Store, calls: Calls, tools: Collection[str]) -> None:
    """Register every resource on ``mcp``; the guide mentions only the given tools."""

    @mcp.resource(
        "rooflens://schema",
        title="SQL schema",
        mime_type="text/plain",
        description="Tables and columns for query_counters",
    )
    def sql_schema() -> str:
        return tables.render()

    @mcp.resource(
        "rooflens://metrics",
        title="Metric catalogue",
        mime_type="text/plain",
        description="Every metric: name, id, unit, title and the GPUs that have it",
    )
    def metric_catalogue() -> str:
        return metric_index()

    @mcp.resource(
        "rooflens://gpus/{gpu}",
        title="GPU facts",
        mime_type="application/json",
        description="Facts of one GPU target (gfx90a, gfx942, ...), each with unit and source",
    )
    def gpu_facts(gpu: str) -> str:
        try:
            return json.dumps(targets.gpu(targets.resolve_gpu(gpu)[0]).model_dump(), indent=1)
        except NotFound as problem:
            raise ResourceNotFoundError(render.refusal(problem)) from problem
        except Problem as problem:
            raise ResourceError(render.refusal(problem)) from problem

    @mcp.resource(
        "rooflens://workload/{id}/summary",
        title="Workload summary",
        mime_type="text/plain",
        description="Device, passes and kernels by time of one workload",
    )
    async def workload_summary(id: str) -> str:
        call = Call(store.address, store.read_only, False, "list_workloads", {"workload": id})
        return await content(calls, call, lambda result: result["content"][0]["text"])

    @mcp.resource(
        "rooflens://guide",
        title="Guide",
        mime_type="text/markdown",
        description="How to work with rooflens: from a profile to an answer",
    )
    def guide() -> str:
        return offered_only((Path(__file__).parent / "guide.md").read_text(encoding="utf-8"), tools)


async def content(calls: Calls, call: Call, text_of: Callable[[dict[str, Any]], str]) -> str:
    """The text of a resource from a call, whose progress is ignored. Raises an error of the SDK for a problem."""

    async def ignore(_: str) -> None:
        pass

    reply = await calls.reply(call, ignore)
    if isinstance(reply, Problem):
        raise ResourceError(render.refusal(reply))
    text = text_of(reply.result)
    if reply.outcome == NotFound.__name__:
        raise ResourceNotFoundError(text)
    if reply.outcome != OK:
        raise ResourceError(text)
    return text


def metric_index() -> str:
    """One line per metric name and family of targets: ids, unit, title, targets."""
    lines = []
    for family in catalog.families():
        for name, variants in catalog.variants(family=family).items():
            metric = next(iter(variants.values()))
            ids = "/".join(dict.fromkeys(m.id for m in variants.values()))
            lines.append(f"{name} | {ids} | {metric.unit} | {metric.title} | {' '.join(variants)}")
    return "name | id | unit | title | gpus\n" + "\n".join(lines)


FOLDER = Path(__file__).parents[2] / "prompts"
_FENCE = "+++\n"
ANY_SERVER = "any_server"
"""A pseudo tool for texts that are not for a particular server, such as the skill: they cover missing tools too."""


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt from its file; ``arguments`` maps each name to its purpose, and none is required."""

    name: str
    title: str
    description: str
    arguments: dict[str, str]
    text: str

    def fill(self, given: dict[str, Any], tools: Collection[str]) -> str:
        """The text for a server that offers these tools, followed by the user's arguments, which are marked as such."""
        text = offered_only(self.text, tools)
        said = [
            f"- {name}: {value}"
            for name in self.arguments
            if (value := inert(shorten(str(given.get(name) or "").strip(), _LONGEST)))
        ]
        return "\n".join([text.rstrip(), "", "## Given by the user", "", *said, ""]) if said else text


_LONGEST = 10_000
"""The maximum number of characters of an argument that are included."""


@cache
def prompts() -> tuple[PromptTemplate, ...]:
    """All prompts by name. Raises ValueError for a file without a header."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.md")))


def add_prompts(mcp: MCPServer[Any], tools: Collection[str]) -> None:
    """Register every prompt on ``mcp``, with the text for a server that offers these tools."""
    for written in prompts():
        mcp.add_prompt(
            Prompt(
                name=written.name,
                title=written.title,
                description=written.description,
                arguments=[PromptArgument(name=name, description=what) for name, what in written.arguments.items()],
                fn=_renderer(written, tools),
                context_kwarg=None,
            )
        )


def _renderer(written: PromptTemplate, tools: Collection[str]) -> Any:
    def render(**given: Any) -> str:
        return written.fill(given, tools)

    return render


def _read(path: Path) -> PromptTemplate:
    start, fence, rest = path.read_text(encoding="utf-8").partition(_FENCE)
    head, closing, text = rest.partition(_FENCE)
    if start or not fence or not closing:
        raise ValueError(f"{path.name} does not start with TOML between two lines of +++")
    stated = tomli.loads(head)
    return PromptTemplate(path.stem, stated["title"], stated["description"], stated.get("arguments", {}), text)


SKILLS = Path(__file__).parents[2] / "skills"
"""One folder for each skill, which also hosts without the extension can install."""
_FRONTMATTER = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_CACHING = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public"}
"""Skills change only with the version of the program, so clients may keep them for an hour and share them."""


@cache
def skills() -> tuple[dict[str, Any], ...]:
    """The entry of every skill: its URI, its frontmatter, and its files with digest and size in bytes."""
    return tuple(_skill_entry(path) for path in sorted(SKILLS.glob("*/SKILL.md")))


def _skill_entry(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    head = _FRONTMATTER.match(content.decode("utf-8"))
    if head is None:
        raise ValueError(f"{path} does not start with frontmatter")
    # Our frontmatter has one plain value per line, which is a part of YAML that needs no parser.
    pairs = dict(line.split(": ", 1) for line in head[1].splitlines())
    uri = f"skill://{pairs['name']}/SKILL.md"
    file = {"uri": uri, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
    return {"uri": uri, "frontmatter": pairs, "resources": [file]}


class SkillsExtension(ProtocolExtension):
    """Skills over MCP (SEP-2640): the skills of rooflens as resources, and the two methods that list them."""

    identifier = "io.modelcontextprotocol/skills"

    def resources(self) -> Sequence[ResourceBinding]:
        """Every SKILL.md, named and described by its frontmatter."""
        return [ResourceBinding(_skill_resource(entry)) for entry in skills()]

    def methods(self) -> Sequence[MethodBinding]:
        """The methods skills/list and skills/get."""
        return [
            MethodBinding("skills/list", PaginatedRequestParams, _list_skills),
            MethodBinding("skills/get", ReadResourceRequestParams, _get_skill),
        ]


def _skill_resource(entry: dict[str, Any]) -> FunctionResource:
    about = entry["frontmatter"]
    return FunctionResource(
        uri=entry["uri"],
        name=about["name"],
        description=about["description"],
        mime_type="text/markdown",
        fn=lambda: (SKILLS / about["name"] / "SKILL.md").read_text(encoding="utf-8"),
    )


async def _list_skills(_: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
    if params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message="There is only one page of skills, so no cursor is valid.")
    return {"skills": [*skills()], **_CACHING}


async def _get_skill(_: ServerRequestContext[Any, Any], params: ReadResourceRequestParams) -> dict[str, Any]:
    entry = next((one for one in skills() if one["uri"] == str(params.uri)), None)
    if entry is None:
        known = ", ".join(one["uri"] for one in skills())
        raise MCPError(code=INVALID_PARAMS, message=f"There is no such skill. Known: {known}")
    return {"skill": entry, **_CACHING}
