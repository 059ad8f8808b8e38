"""The MCP server as a client sees it, in both protocol eras, in process."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, Request

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import app, toolbox

ERAS = ("auto", "legacy")
pytestmark = pytest.mark.anyio


@pytest.fixture(params=ERAS)
async def client(request: pytest.FixtureRequest, samples: Store) -> AsyncIterator[Client]:
    async with Client(app.build(samples), mode=request.param) as connected:
        yield connected


async def test_annotations_say_which_tools_write(client: Client) -> None:
    listed = (await client.list_tools()).tools
    writers = [t.name for t in listed if t.annotations and not t.annotations.read_only_hint]
    assert writers == ["import_profile", "compare_workloads", "plot"], "a comparison is noted in the log on request"
    assert not any(t.annotations and (t.annotations.destructive_hint or t.annotations.open_world_hint) for t in listed)


async def test_the_list_of_all_tools_is_short_and_explains_every_parameter(
    samples: Store,
) -> None:
    async with Client(app.build(samples, allow_exec=True)) as connected:
        listed = (await connected.list_tools()).tools
    assert [t.name for t in listed] == [t.name for t in toolbox.TOOLS]
    assert len(json.dumps([t.model_dump(by_alias=True, exclude_none=True) for t in listed])) < 20_000
    assert [
        (t.name, p) for t in listed for p, s in t.input_schema["properties"].items() if not s.get("description")
    ] == []
    assert all(t.description and len(t.description) <= 400 and len(t.name) <= 32 for t in listed)
    assert all("title" not in p for t in listed for p in t.input_schema["properties"].values())


@pytest.mark.parametrize(
    "flags", [{}, {"allow_exec": True}, {"read_only": True}], ids=["usual", "executing", "read only"]
)
async def test_no_text_names_a_tool_that_is_not_offered(samples: Store, flags: dict[str, bool]) -> None:
    async with Client(app.build(samples, **flags)) as connected:
        listed = (await connected.list_tools()).tools
        (guide,) = (await connected.read_resource("rooflens://guide")).contents
        texts = [connected.instructions or "", guide.text]
    described = json.dumps([t.model_dump(by_alias=True, exclude_none=True) for t in listed])
    names, every = {t.name for t in listed}, {t.name for t in toolbox.TOOLS}
    for name in every:
        word = re.compile(rf"\b{name}\b" if "_" in name else rf"`{name}`")
        if name not in names:
            assert not any(word.search(text) for text in (*texts, described)), name
    assert "{{" not in "".join(texts) and "}}" not in "".join(texts)
    executing = names >= {"profile_command", "run_peak_benchmarks"}
    assert all((name in texts[1]) == executing for name in ("profile_command", "run_peak_benchmarks"))


async def test_text_and_structured_content_hold_the_same_figures(client: Client) -> None:
    answer = await client.call_tool("compute_metrics", {"workload": "yax_before", "metrics": ["17.3"]})
    assert not answer.is_error
    assert len(answer.content) == 1
    table = answer.structured_content["table"]
    names = [row[table["columns"].index("name")] for row in table["rows"]]
    assert len(names) == 19
    assert all(name in answer.content[0].text for name in names)
    assert set(answer.structured_content) >= {"notes", "next", "workload", "table"}


async def test_a_picture_comes_as_an_image_with_the_same_facts_in_words(samples: Store, tmp_path: Path) -> None:
    store = Store(shutil.copytree(samples.root, tmp_path / "own"))
    async with Client(app.build(store)) as client:
        answer = await client.call_tool("plot", {"kind": "speed_of_light", "workload": "yax_before"})
    image, words = answer.content
    assert (image.type, image.mime_type) == ("image", "image/png")
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    assert answer.structured_content is None, "clients that prefer structured content would drop the picture"
    assert "png_path" in words.text and "Hit rate" in words.text


async def test_a_problem_reaches_the_client_word_for_word(client: Client) -> None:
    answer = await client.call_tool("compute_metrics", {"workload": "yax_befor"})
    assert answer.is_error
    assert answer.content[0].text.startswith("There is no workload 'yax_befor'. Near names: yax_before")


async def test_every_resource_can_be_read(client: Client) -> None:
    listed = [str(r.uri) for r in (await client.list_resources()).resources]
    fixed = [uri for uri in listed if not uri.startswith("skill://")]
    templates = [r.uri_template for r in (await client.list_resource_templates()).resource_templates]
    assert sorted(fixed) == ["rooflens://guide", "rooflens://metrics", "rooflens://schema"]
    assert sorted(templates) == ["rooflens://gpus/{gpu}", "rooflens://workload/{id}/summary"]
    expected = {
        "rooflens://guide": "list_workloads", "rooflens://metrics": "l2.hit_rate_pct", "rooflens://schema": "counters",
        "rooflens://gpus/gfx90a": "validated_on_hardware", "rooflens://workload/yax_after/summary": "| yax |",
    }  # fmt: skip
    for uri, part in expected.items():
        assert part in (await client.read_resource(uri)).contents[0].text
    with pytest.raises(MCPError, match="gfx90a"):
        await client.read_resource("rooflens://gpus/gfx90b")


async def test_a_read_only_server_has_no_tool_that_writes(samples: Store) -> None:
    async with Client(app.build(samples, read_only=True)) as connected:
        names = [t.name for t in (await connected.list_tools()).tools]
        assert "import_profile" not in names
        refused = await connected.call_tool("list_workloads", {})
        assert not refused.is_error


async def test_tools_that_execute_exist_only_with_leave(samples: Store) -> None:
    executing = {"profile_command", "cancel_run"}
    for flags, there in (
        ({}, set()),
        ({"allow_exec": True}, executing),
        ({"allow_exec": True, "read_only": True}, set()),
    ):
        async with Client(app.build(samples, **flags)) as client:
            listed = {t.name: t.annotations for t in (await client.list_tools()).tools}
            assert {*executing, "get_run"} & set(listed) == {*there, "get_run"}
            assert ("profile_command" in (client.instructions or "")) == bool(there)
            assert len(client.instructions or "") < 1_500
            for hints in (listed[name] for name in there):
                assert hints and hints.destructive_hint and hints.open_world_hint and hints.read_only_hint is False
            hints = listed["get_run"]
            assert hints and hints.read_only_hint and not hints.open_world_hint
            if not there:
                with pytest.raises(MCPError, match="no such tool"):
                    await client.call_tool("profile_command", {"command": ["true"]})
                assert not samples.runs.exists()


class _SkillsRequest(Request[Any, str]):
    """A request of the extension, which the client of the SDK has no method for."""


async def _skills(client: Client, method: str, **params: str) -> dict[str, Any]:
    answer = await client.session.send_request(_SkillsRequest(method=method, params=params), _AnyResult)  # type: ignore[arg-type]
    return answer.model_dump(by_alias=True)


class _AnyResult(pydantic.BaseModel, extra="allow"):
    """A result with whatever fields it has."""


async def test_skills_are_listed_with_digests_of_what_is_read(client: Client) -> None:
    declared = client.server_capabilities.extensions or {}
    assert declared.get("io.modelcontextprotocol/skills") == (None if client.mode == "legacy" else {})
    listed = await _skills(client, "skills/list")
    assert listed["ttlMs"] > 0 and listed["cacheScope"] == "public" and "nextCursor" not in listed
    assert len(listed["skills"]) == 5
    for entry in listed["skills"]:
        (file,) = entry["resources"]
        assert file["uri"] == entry["uri"] == f"skill://{entry['frontmatter']['name']}/SKILL.md"
        (content,) = (await client.read_resource(file["uri"])).contents
        raw = content.text.encode()
        assert (file["digest"], file["size"]) == (f"sha256:{hashlib.sha256(raw).hexdigest()}", len(raw))
        assert content.mime_type == "text/markdown"
        got = await _skills(client, "skills/get", uri=entry["uri"])
        assert got["skill"] == entry and got["ttlMs"] > 0
    resources = {str(one.uri): one for one in (await client.list_resources()).resources}
    assert all(resources[one["uri"]].name == one["frontmatter"]["name"] for one in listed["skills"])


async def test_a_skill_that_is_not_served_is_an_invalid_parameter(client: Client) -> None:
    for method, params in (("skills/get", {"uri": "skill://none/SKILL.md"}), ("skills/list", {"cursor": "x"})):
        with pytest.raises(MCPError) as refusal:
            await _skills(client, method, **params)
        assert refusal.value.code == INVALID_PARAMS
