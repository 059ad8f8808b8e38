"""The page as an MCP App: told to clients that can show it, nowhere to others; its data answers like a tool."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import app
from rooflens.server.mcp.page_app import PAGE, SHOWN_FOR
from rooflens.server.page.build import page

pytestmark = pytest.mark.anyio


def connected(store: Store, mode: Any, settings: dict[str, Any] | None) -> Client:
    """A client that announces the extension with these settings, or not at all."""
    told = [] if settings is None else [advertise(EXTENSION_ID, settings)]
    return Client(app.build(store), mode=mode, extensions=told)


async def listed(client: Client) -> tuple[dict[str, Any], str, list[str]]:
    """The tools with a page, all tools as JSON without it, and every resource and template."""
    tools = (await client.list_tools()).tools
    pages = {tool.name: tool.meta for tool in tools if tool.meta}
    text = json.dumps([t.model_copy(update={"meta": None}).model_dump(exclude_none=True) for t in tools], default=str)
    resources = [str(r.uri) for r in (await client.list_resources()).resources]
    return (
        pages,
        text,
        resources + [t.uri_template for t in (await client.list_resource_templates()).resource_templates],
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_only_clients_that_announce_apps_are_told_of_the_page(samples: Store, mode: str) -> None:
    async with connected(samples, mode, None) as client:
        pages, tools, resources = await listed(client)
    assert pages == {} and not [r for r in resources if "report" in r]
    async with connected(samples, mode, {"mimeTypes": ["text/plain"]}) as client:
        assert (await listed(client)) == ({}, tools, resources)
    async with connected(samples, mode, {"mimeTypes": [APP_MIME_TYPE]}) as client:
        shown, same, more = await listed(client)
    assert shown == {key: {"ui": {"resourceUri": PAGE}} for key in SHOWN_FOR}
    assert same == tools
    assert set(more) - set(resources) == {
        PAGE,
        "rooflens://report/{workload}",
        "rooflens://report/{baseline}/{candidate}",
    }


async def test_page_and_data_can_be_read(samples: Store) -> None:
    async with connected(samples, "auto", {"mimeTypes": [APP_MIME_TYPE]}) as client:
        (html,) = (await client.read_resource(PAGE)).contents
        (data,) = (await client.read_resource("rooflens://report/yax_before/yax_after")).contents
        with pytest.raises(Exception, match="Near names: yax_before"):
            await client.read_resource("rooflens://report/yax_befor")
    assert (html.mime_type, html.text) == (APP_MIME_TYPE, page(None))
    assert html.meta == {"ui": {"csp": {}, "prefersBorder": False}}, "no domain is asked for"
    report = json.loads(base64.b64decode(data.blob))
    assert [w["name"] for w in report["workloads"]] == ["yax_before", "yax_after"]
    assert len(report["comparisons"]) == 1
