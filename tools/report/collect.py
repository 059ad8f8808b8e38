"""Collects what a report shows: one document with the answers of the tools about workloads and between them.

Nothing is computed here. Every section is the answer of a tool as it is, within limits; what was cut is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ... import __version__
from ...analysis.kernel_names import distinct
from ...analysis.problems import BadArgument, Problem
from ...analysis.store import Manifest, Store
from ..compare_workloads import compare_workloads
from ..compute_metrics import compute_metrics
from ..compute_occupancy import compute_occupancy
from ..compute_roofline import compute_roofline
from ..compute_timeline import compute_timeline
from ..diagnose_bottleneck import diagnose_bottleneck
from ..list_workloads import list_workloads
from ..progress import report as tell
from ..results import Result, Table
from .events import events

FORMAT = 1
"""Of the document; the page reads this one."""
MOST_WORKLOADS = 8
_SPEED_OF_LIGHT = {"cpu": "*"}
"""By target, where the panel of speed of light is called otherwise."""
_PANEL = "2"
_OCCUPANCY, _TIMELINE_ROWS = 500, 100
Document = dict[str, Any]
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """How much of a workload a report holds."""

    kernels: int = 500
    """In tables and rooflines."""
    events: int = 100_000
    diagnosed: int = 10
    apart: int = 20
    """Kernels whose speed of light is told one by one."""


@dataclass(frozen=True)
class _Section:
    """One part of a report: the tool that answers it, and the arguments besides the workload."""

    key: str
    tool: Callable[..., Result]
    arguments: Arguments
    without: frozenset[str] = frozenset()
    """Fields that another section tells."""


def collect(store: Store, words: Sequence[str], limits: Limits = Limits()) -> Document:
    """The document about the workloads meant by ``words``; the first is the baseline of the others.

    A section that a workload has nothing for holds the Problem in words. Raises NotFound for an unknown workload and
    BadArgument for too many, or for one that is named twice.
    """
    if not 1 <= len(words) <= MOST_WORKLOADS:
        raise BadArgument(f"{len(words)} workloads are named", fix=f"Name 1 to {MOST_WORKLOADS}")
    manifests = [store.resolve(word) for word in words]
    if twice := [m.name for n, m in enumerate(manifests) if m.id in {other.id for other in manifests[:n]}]:
        raise BadArgument(f"{twice[0]!r} is named twice", fix="Name every workload once")
    cut: list[str] = []
    workloads = [_workload(store, manifest, limits, cut) for manifest in manifests]
    comparisons = [_comparison(store, manifests[0], other, cut) for other in manifests[1:]]
    names = sorted(set(_kernels([*workloads, *comparisons])))
    return {
        "format": FORMAT,
        "rooflens": __version__,
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "workloads": workloads,
        "comparisons": comparisons,
        "short_names": {full: short for full, short in distinct(names).items() if short != full},
        "cut": cut,
    }


def _workload(store: Store, manifest: Manifest, limits: Limits, cut: list[str]) -> Document:
    """All sections of one workload."""
    tell(f"report: {manifest.name}")
    found: Document = {"id": manifest.id, "name": manifest.name, "arch": manifest.arch, "device": manifest.device}
    sections = {s.key: _answer(store, s, {"workload": manifest.id}, cut) for s in _sections(manifest, limits)}
    rooflines = list(_rooflines(store, manifest, limits, cut))
    drawn = events(store, manifest.id, limits.events) if manifest.events else None
    if drawn and drawn["total"] > len(drawn["lane"]):
        cut.append(
            f"{manifest.name}: the {len(drawn['lane'])} longest of {drawn['total']} events and ranges are drawn."
        )
    return {**found, "sections": sections, "rooflines": rooflines, "events": drawn}


def _sections(manifest: Manifest, limits: Limits) -> Iterator[_Section]:
    most = {"limit": limits.kernels}
    panel = {"metrics": [_SPEED_OF_LIGHT.get(manifest.arch or "", _PANEL)], "detail": "full", "limit": 10_000}
    yield _Section("kernels", list_workloads, most)
    if manifest.dispatches:
        yield _Section("launches", list_workloads, {"by": "launch", **most})
    if manifest.events:
        yield _Section("timeline", compute_timeline, {"top_n": _TIMELINE_ROWS}, frozenset({"kernels"}))
    yield _Section("speed_of_light", compute_metrics, panel)
    if manifest.counters and manifest.kernels > 1:
        ranks = ",".join(f"#{n + 1}" for n in range(min(limits.apart, manifest.kernels)))
        yield _Section("speed_of_light_of_kernels", compute_metrics, {**panel, "by": "kernel", "kernel": ranks})
    yield _Section("occupancy", compute_occupancy, {"limit": _OCCUPANCY})
    yield _Section("diagnosis", diagnose_bottleneck, {"top_n": limits.diagnosed, "detail": "full"})


def _rooflines(store: Store, manifest: Manifest, limits: Limits, cut: list[str]) -> Iterator[Document]:
    """What the picture switches between: work by data type and instructions, measured ceilings and theory.

    Theory is asked for where the first answer has measured ceilings; without any it is theory already.
    """
    whole = {"detail": "full", "limit": limits.kernels}
    kinds: dict[str, Arguments] = {"operations": {"datatype": "all"}, "instructions": {"kind": "instruction"}}
    for key, kind in kinds.items():
        for source in ("empirical", "theoretical"):
            asked = _Section(key, compute_roofline, {"ceiling_source": source, **kind, **whole})
            answered = _answer(store, asked, {"workload": manifest.id}, cut)
            yield answered
            if "problem" in answered or answered["answer"]["ceiling_source"] == "theoretical":
                break


def _comparison(store: Store, baseline: Manifest, candidate: Manifest, cut: list[str]) -> Document:
    asked = _Section("comparison", compare_workloads, {"detail": "full"})
    pair = {"baseline": baseline.id, "candidate": candidate.id}
    return {**pair, **_answer(store, asked, pair, cut)}


def _answer(store: Store, section: _Section, subject: Arguments, cut: list[str]) -> Document:
    """The answer of a tool with what it was asked, or why there is none."""
    asked: Document = {"key": section.key, "tool": section.tool.__name__, "arguments": {**subject, **section.arguments}}
    try:
        result = section.tool(store, **asked["arguments"])
    except Problem as problem:
        return {**asked, "problem": {"what": problem.what, "why": problem.why, "fix": problem.fix}}
    for name, value in result:
        if isinstance(value, Table) and value.truncated and name not in section.without:
            total = "more" if value.total_rows is None else value.total_rows
            cut.append(f"{section.key.replace('_', ' ')}, {name}: {len(value.rows)} rows of {total}.")
    return {**asked, "answer": result.model_dump(mode="python", exclude={"next", *section.without})}


def _kernels(value: Any, field: str = "") -> Iterator[str]:
    """Every name of a kernel in a document: in a field or a column of that name."""
    if isinstance(value, dict):
        if isinstance(columns := value.get("columns"), list) and "kernel" in columns:
            at = columns.index("kernel")
            yield from (row[at] for row in value["rows"] if isinstance(row[at], str))
            return
        for key, part in value.items():
            yield from _kernels(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _kernels(part)
    elif field == "kernel" and isinstance(value, str):
        yield value
