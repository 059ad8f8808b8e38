"""The page as an MCP App: a ui:// resource that plot and compute_roofline name to clients which can show it."""

from __future__ import annotations

from typing import Any

from mcp.server.apps import APP_MIME_TYPE, Apps, client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources.types import FunctionResource

from ...analysis.base.problems import NotFound, Problem
from ...analysis.store.store import Store
from ...tools.base.progress import listening
from ...tools.isolation.channel import Channel
from ...tools.isolation.fork_server import ForkServer
from ...tools.report.collect import ReportLimits, collect
from ..page.build import pack_document, page
from ..rendering import render
from .calls import OK, Call, Calls, outcome
from .toolbox import FUNCTIONS

PAGE = "ui://rooflens/report"
SHOWN_FOR = ("plot", "compute_roofline")
_REPORT = "rooflens://report/"
_TEMPLATES = (f"{_REPORT}{{workload}}", f"{_REPORT}{{baseline}}/{{candidate}}")
_WITHIN = ReportLimits(events=30_000, diagnosed=5)
"""An app is shown in a corner of a conversation; `rooflens report` has more."""
_NO_DOMAINS: dict[str, Any] = {"ui": {"csp": {}, "prefersBorder": False}}
"""The page asks nothing of any network."""


def extension() -> Apps:
    """The extension with the page as its one resource."""
    apps = Apps()
    apps.add_resource(
        FunctionResource(
            uri=PAGE,
            name="report",
            title="Report",
            description="Where the time goes, rooflines, timelines and findings as a page",
            mime_type=APP_MIME_TYPE,
            meta=_NO_DOMAINS,
            fn=lambda: page(None),
        )
    )
    return apps


def add_app(mcp: MCPServer[Any], store: Store, forks: ForkServer) -> None:
    """Serve what the page asks for on ``mcp``, and tell of it only those clients that announce the extension."""
    calls = Calls(forks, compose)

    async def document(words: list[str]) -> bytes:
        """JSON as bytes: it goes to the page as it is, and a model that comes across it reads no names in it."""
        reply = await calls.reply(Call(store.address, store.read_only, False, "report", {"workloads": words}), _silent)
        if isinstance(reply, Problem):
            raise ResourceError(render.refusal(reply))
        text = str(reply.result["text"])
        if reply.outcome == NotFound.__name__:
            raise ResourceNotFoundError(text)
        if reply.outcome != OK:
            raise ResourceError(text)
        return text.encode()

    @mcp.resource(_TEMPLATES[0], title="Report", mime_type="application/json")
    async def report(workload: str) -> bytes:
        return await document([workload])

    @mcp.resource(_TEMPLATES[1], title="Report of two workloads", mime_type="application/json")
    async def report_of_two(baseline: str, candidate: str) -> bytes:
        return await document([baseline, candidate])

    mcp.middleware.append(_told_to_those_who_can)


def compose(channel: Channel, job: dict[str, Any]) -> None:
    """In a child: collect a report and send it as JSON, or the Problem in words."""
    call = Call(**job)
    store = Store.locate(call.store, read_only=True)
    document: str | Problem
    try:
        with listening(lambda text: channel.send({"progress": text})):
            document = pack_document(collect(store, FUNCTIONS, call.arguments["workloads"], _WITHIN))
    except Problem as problem:
        document = problem
    text = render.refusal(document) if isinstance(document, Problem) else document
    went = outcome(document) if isinstance(document, Problem) else OK
    channel.send({"reply": {"result": {"text": text}, "outcome": went}})


async def _told_to_those_who_can(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Name the page beside its tools for clients that can show it; to others nothing of it is listed."""
    result = await call_next(ctx)
    if not isinstance(result, dict):
        return result
    if ctx.method == "tools/list" and client_supports_apps(ctx):
        meta = {"ui": {"resourceUri": PAGE}}
        return {**result, "tools": [{**t, "_meta": meta} if t["name"] in SHOWN_FOR else t for t in result["tools"]]}
    if ctx.method == "resources/list" and not client_supports_apps(ctx):
        return {**result, "resources": [r for r in result["resources"] if r["uri"] != PAGE]}
    if ctx.method == "resources/templates/list" and not client_supports_apps(ctx):
        kept = [t for t in result["resourceTemplates"] if t["uriTemplate"] not in _TEMPLATES]
        return {**result, "resourceTemplates": kept}
    return result


async def _silent(_: str) -> None:
    """Progress of a page is told to nobody."""
