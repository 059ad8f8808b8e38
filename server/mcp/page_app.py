"""The page as an MCP App: a ui:// resource that plot and compute_roofline offer to clients that can display it."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from mcp.server.apps import APP_MIME_TYPE, Apps, client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources.types import FunctionResource

from ...analysis.base.problems import Problem
from ...analysis.store.store import Store
from ...tools.base.progress import listening
from ...tools.isolation.channel import Channel
from ...tools.isolation.fork_server import ForkServer
from ...tools.rendering import render
from ...tools.report.collect import ReportLimits, collect
from ..page.build import pack_document, page
from .calls import Call, Calls
from .resources import content
from .toolbox import OK, functions, outcome

PAGE = "ui://rooflens/report"
SHOWN_FOR = ("plot", "compute_roofline")
_REPORT = "rooflens://report/"
_TEMPLATES = (f"{_REPORT}{{workload}}", f"{_REPORT}{{baseline}}/{{candidate}}")
_WITHIN = ReportLimits(events=30_000, diagnosed=5)
"""The app is displayed in a small part of a conversation; `rooflens report` contains more."""
_NO_DOMAINS: dict[str, Any] = {"ui": {"csp": {}, "prefersBorder": False}}
"""The page uses no network."""


def extension() -> Apps:
    """The extension, whose only resource is the page."""
    apps = Apps()
    apps.add_resource(
        FunctionResource(
            uri=PAGE,
            name="report",
            title="Report",
            description="Time, rooflines, timelines and findings as an interactive page",
            mime_type=APP_MIME_TYPE,
            meta=_NO_DOMAINS,
            fn=lambda: page(None),
        )
    )
    return apps


def add_app(mcp: MCPServer[Any], store: Store, forks: ForkServer) -> None:
    """Serve the requests of the page on ``mcp``, and list it only for clients that announce the extension."""
    calls = Calls(forks, compose)

    async def document(words: list[str]) -> bytes:
        """JSON as bytes, which is passed to the page unchanged; a model cannot read names in it."""
        call = Call(store.address, store.read_only, False, "report", {"workloads": words})
        return (await content(calls, call, itemgetter("text"))).encode()

    @mcp.resource(_TEMPLATES[0], title="Report", mime_type="application/json")
    async def report(workload: str) -> bytes:
        return await document([workload])

    @mcp.resource(_TEMPLATES[1], title="Report of two workloads", mime_type="application/json")
    async def report_of_two(baseline: str, candidate: str) -> bytes:
        return await document([baseline, candidate])

    mcp.middleware.append(_told_to_those_who_can)


def compose(channel: Channel, job: dict[str, Any]) -> None:
    """In a child: collect a report and send it as JSON, or send the text of the Problem."""
    call = Call(**job)
    store = Store.locate(call.store, read_only=True)
    went = OK
    try:
        with listening(lambda text: channel.send({"progress": text})):
            text = pack_document(collect(store, functions(), call.arguments["workloads"], _WITHIN))
    except Problem as problem:
        text, went = render.refusal(problem), outcome(problem)
    channel.send({"reply": {"result": {"text": text}, "outcome": went}})


async def _told_to_those_who_can(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """List the page with its tools for clients that can display it, and not for others."""
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
