"""The MCP resources: the SQL schema, the metric catalogue, GPU facts, one workload's summary, and the guide."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from ...analysis.base.problems import NotFound, Problem
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue import products, targets
from ...analysis.store import schema
from ...analysis.store.store import Store
from ..rendering import render
from .calls import OK, Call, Calls
from .offered import offered_only


def add_resources(mcp: MCPServer[Any], store: Store, calls: Calls, tools: Collection[str]) -> None:
    """Register every resource on ``mcp``; the guide names only these tools."""

    @mcp.resource(
        "rooflens://schema",
        title="SQL schema",
        mime_type="text/plain",
        description="Tables and columns for query_counters",
    )
    def sql_schema() -> str:
        return schema.render()

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
        return _facts(gpu)

    @mcp.resource(
        "rooflens://workload/{id}/summary",
        title="Workload summary",
        mime_type="text/plain",
        description="Device, passes and kernels by time of one workload",
    )
    async def workload_summary(id: str) -> str:
        call = Call(store.address, store.read_only, False, "list_workloads", {"workload": id})
        reply = await calls.reply(call, _to_nobody)
        if isinstance(reply, Problem):
            raise ResourceError(render.refusal(reply))
        text = str(reply.result["content"][0]["text"])
        if reply.outcome == NotFound.__name__:
            raise ResourceNotFoundError(text)
        if reply.outcome != OK:
            raise ResourceError(text)
        return text

    @mcp.resource(
        "rooflens://guide",
        title="Guide",
        mime_type="text/markdown",
        description="How to work with rooflens: from a profile to an answer",
    )
    def guide() -> str:
        return offered_only((Path(__file__).parent / "guide.md").read_text(encoding="utf-8"), tools)


async def _to_nobody(_: str) -> None:
    """Progress of a resource is told to nobody."""


def metric_index() -> str:
    """One line per metric name and family of targets: ids, unit, title, targets."""
    lines = []
    for family in catalog.families():
        for name, variants in catalog.variants(family=family).items():
            metric = next(iter(variants.values()))
            ids = "/".join(dict.fromkeys(m.id for m in variants.values()))
            lines.append(f"{name} | {ids} | {metric.unit} | {metric.title} | {' '.join(variants)}")
    return "name | id | unit | title | gpus\n" + "\n".join(lines)


def _facts(gpu: str) -> str:
    """The facts of a target, as JSON."""
    try:
        return json.dumps(targets.gpu(products.resolve_gpu(gpu)[0]).model_dump(), indent=1)
    except NotFound as problem:
        raise ResourceNotFoundError(render.refusal(problem)) from problem
    except Problem as problem:
        raise ResourceError(render.refusal(problem)) from problem
