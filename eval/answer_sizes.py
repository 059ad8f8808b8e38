"""Measures the tokens of default answers over all available workloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pydantic_core
from kernels import ROOT
from mcp.client import Client
from questions import CHARACTERS_PER_TOKEN

SHARED = ROOT.parent / "shared"
MEASURED = ("compute_metrics", "diagnose_bottleneck", "compute_roofline")
"""Tools that are called with a workload as the only argument."""
MOST_AT_MEDIAN = 700
"""Limit for the median answer of each of these tools in tokens, as text and as structured content."""


@dataclass(frozen=True)
class Size:
    """The size of one answer: tokens of its text and structured content. Clients show one of them to the model."""

    tool: str
    workload: str
    text: int
    structured: int


def profiles() -> Iterator[tuple[str, Path]]:
    """Name and path of every recorded workload next to the project; empty if there are none."""
    for pattern in ("workloads/*/*", "workloads38/*", "rocprofv3/*", "ncu/*", "source_lines/*.ncu-rep.gz"):
        for path in sorted(SHARED.glob(pattern)):
            yield path.relative_to(SHARED).as_posix().replace("/", "."), path


async def measured(client: Client) -> list[Size]:
    """The sizes of default answers for each profile that can be imported; refused calls are skipped."""
    sizes = []
    for name, path in profiles():
        imported = await client.call_tool("import_profile", {"path": str(path), "name": name})
        if imported.is_error:
            continue
        workload = (imported.structured_content or {})["workload"]
        for tool in MEASURED:
            answer = await client.call_tool(tool, {"workload": workload})
            if not answer.is_error:
                text = sum(len(getattr(block, "text", "")) for block in answer.content)
                structured = len(pydantic_core.to_json(answer.structured_content))
                sizes.append(Size(tool, name, text // CHARACTERS_PER_TOKEN, structured // CHARACTERS_PER_TOKEN))
    return sizes


def scores(sizes: list[Size]) -> dict[str, dict[str, Any]]:
    """Tool -> median and maximum size of its answers, with the workload of the maximum."""
    found = {}
    for tool in dict.fromkeys(size.tool for size in sizes):
        of_tool = [size for size in sizes if size.tool == tool]
        worst = max(of_tool, key=lambda size: max(size.text, size.structured))
        found[tool] = {
            "answers": len(of_tool),
            "text_median": median(size.text for size in of_tool),
            "structured_median": median(size.structured for size in of_tool),
            "text_most": max(size.text for size in of_tool),
            "structured_most": max(size.structured for size in of_tool),
            "worst": worst.workload,
        }
    return found


def report(found: dict[str, dict[str, Any]]) -> list[str]:
    """Format the sizes as lines of text."""
    lines = ["Tokens of default answers   answers  text: median  most  structured: median  most"] if found else []
    for tool, s in found.items():
        lines.append(
            f"  {tool:26}{s['answers']:7}{s['text_median']:14.0f}{s['text_most']:6}"
            f"{s['structured_median']:20.0f}{s['structured_most']:6}  ({s['worst']})"
        )
    return lines


def missed(found: dict[str, dict[str, Any]]) -> list[str]:
    """List the tools whose median answer exceeds MOST_AT_MEDIAN."""
    return [
        f"{tool}: the median answer takes {s[kind + '_median']:.0f} tokens ({kind}), at most {MOST_AT_MEDIAN}"
        for tool, s in found.items()
        for kind in ("text", "structured")
        if s[f"{kind}_median"] > MOST_AT_MEDIAN
    ]
