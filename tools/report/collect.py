"""Collects what a report shows: one document with the answers of the tools about workloads and between them.

Nothing is computed here. Every section is the answer of a tool as it is, within limits; what was cut is told. The
tools are those of the caller, by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import __version__
from ...analysis.base.kernel_names import distinct
from ...analysis.base.problems import BadArgument, Problem
from ...analysis.base.text import count_text
from ...analysis.store.schema import iso
from ...analysis.store.store import Manifest, Store
from ..base.progress import report as tell
from ..base.results import Result, Table
from .trace_export import events

FORMAT = 1
"""Of the document; the page reads this one."""
MOST_WORKLOADS = 8
_SPEED_OF_LIGHT = {"cpu": "*"}
"""By target, where the panel of speed of light is called otherwise."""
_PANEL = "2"
_OCCUPANCY, _TIMELINE_ROWS = 500, 100
_HOT_KERNELS, _HOT_LINES = 5, {"top_n": 30, "context": 8, "detail": "full"}
"""Kernels whose lines are told, and how many of each."""
Document = dict[str, Any]
Arguments = Mapping[str, Any]
Tools = Mapping[str, Callable[..., Result]]


@dataclass(frozen=True)
class ReportLimits:
    """How much of a workload a report holds."""

    kernels: int = 500
    """In tables and rooflines."""
    events: int = 100_000
    diagnosed: int = 10
    apart: int = 20
    """Kernels whose speed of light is told one by one."""


@dataclass(frozen=True)
class _ReportSection:
    """One part of a report: the tool that answers it, and the arguments besides the workload."""

    key: str
    tool: str
    arguments: Arguments
    without: frozenset[str] = frozenset()
    """Fields that another section tells."""


def collect(store: Store, tools: Tools, words: Sequence[str], limits: ReportLimits = ReportLimits()) -> Document:
    """The document about the workloads meant by ``words``; the first is the baseline of the others.

    A section that a workload has nothing for holds the Problem in words. Raises NotFound for an unknown workload and
    BadArgument for too many, or for one that is named twice.
    """
    if not 1 <= len(words) <= MOST_WORKLOADS:
        raise BadArgument(
            f"{count_text(len(words), 'workload is', 'workloads are')} named", fix=f"Name 1 to {MOST_WORKLOADS}"
        )
    manifests = [store.resolve(word) for word in words]
    if twice := [m.name for n, m in enumerate(manifests) if m.id in {other.id for other in manifests[:n]}]:
        raise BadArgument(f"{twice[0]!r} is named twice", fix="Name every workload once")
    collector = _ReportCollector(store, tools, limits)
    workloads = [_workload(collector, manifest) for manifest in manifests]
    comparisons = [_comparison(collector, manifests[0], other) for other in manifests[1:]]
    names = sorted(set(_kernels([*workloads, *comparisons])))
    return {
        "format": FORMAT,
        "rooflens": __version__,
        "created": iso(time.time_ns()),
        "workloads": workloads,
        "comparisons": comparisons,
        "short_names": {full: short for full, short in distinct(names).items() if short != full},
        "cut": collector.cut,
    }


@dataclass(frozen=True)
class _ReportCollector:
    """What answers a report, and what it had to leave out."""

    store: Store
    tools: Tools
    limits: ReportLimits
    cut: list[str] = field(default_factory=list)

    def answer(self, section: _ReportSection, subject: Arguments) -> Document:
        """The answer of a tool with what it was asked, or why there is none."""
        tell(f"report: {section.key.replace('_', ' ')}")
        section_document: Document = {
            "key": section.key,
            "tool": section.tool,
            "arguments": {**subject, **section.arguments},
        }
        try:
            result = self.tools[section.tool](self.store, **section_document["arguments"])
        except Problem as problem:
            return {**section_document, "problem": {"what": problem.what, "why": problem.why, "fix": problem.fix}}
        for name, value in result:
            if isinstance(value, Table) and value.truncated and name not in section.without:
                total = "more" if value.total_rows is None else value.total_rows
                self.cut.append(
                    f"{section.key.replace('_', ' ')}, {name}: {count_text(len(value.rows), 'row')} of {total}."
                )
        return {**section_document, "answer": result.model_dump(mode="python", exclude={"next", *section.without})}


def _workload(collector: _ReportCollector, manifest: Manifest) -> Document:
    """All sections of one workload."""
    about: Document = {"id": manifest.id, "name": manifest.name, "arch": manifest.arch, "device": manifest.device}
    subject, limits = {"workload": manifest.id}, collector.limits
    sections = {s.key: collector.answer(s, subject) for s in _sections(manifest, limits)}
    drawn = events(collector.store, manifest.id, limits.events) if manifest.events else None
    if drawn and drawn["total"] > len(drawn["lane"]):
        collector.cut.append(
            f"{manifest.name}: the {len(drawn['lane'])} longest of {count_text(drawn['total'], 'event')} and "
            "ranges are drawn."
        )
    rooflines, hotspots = list(_rooflines(collector, manifest)), list(_hotspots(collector, manifest))
    return {**about, "sections": sections, "rooflines": rooflines, "hotspots": hotspots, "events": drawn}


def _sections(manifest: Manifest, limits: ReportLimits) -> Iterator[_ReportSection]:
    most = {"limit": limits.kernels}
    panel = {"metrics": [_SPEED_OF_LIGHT.get(manifest.arch or "", _PANEL)], "detail": "full", "limit": 10_000}
    yield _ReportSection("kernels", "list_workloads", most)
    if manifest.dispatches:
        yield _ReportSection("launches", "list_workloads", {"by": "launch", **most})
    if manifest.events or (manifest.dispatches and not manifest.counters):
        yield _ReportSection("timeline", "compute_timeline", {"top_n": _TIMELINE_ROWS}, frozenset({"kernels"}))
    yield _ReportSection("speed_of_light", "compute_metrics", panel)
    if manifest.counters and manifest.kernels > 1:
        ranks = ",".join(f"#{n + 1}" for n in range(min(limits.apart, manifest.kernels)))
        yield _ReportSection("speed_of_light_of_kernels", "compute_metrics", {**panel, "by": "kernel", "kernel": ranks})
    yield _ReportSection("occupancy", "compute_occupancy", {"limit": _OCCUPANCY})
    yield _ReportSection("diagnosis", "diagnose_bottleneck", {"top_n": limits.diagnosed, "detail": "full"})


def _rooflines(collector: _ReportCollector, manifest: Manifest) -> Iterator[Document]:
    """What the picture switches between: work by data type and instructions, measured ceilings and theory.

    Theory is asked for where the first answer has measured ceilings; without any it is theory already.
    """
    whole = {"detail": "full", "limit": collector.limits.kernels}
    kinds: dict[str, Arguments] = {"operations": {"datatype": "all"}, "instructions": {"kind": "instruction"}}
    for key, kind in kinds.items():
        for source in ("empirical", "theoretical"):
            section = _ReportSection(key, "compute_roofline", {"ceiling_source": source, **kind, **whole})
            answer = collector.answer(section, {"workload": manifest.id})
            yield answer
            if "problem" in answer or answer["answer"]["ceiling_source"] == "theoretical":
                break


def _hotspots(collector: _ReportCollector, manifest: Manifest) -> Iterator[Document]:
    """The hot lines of the kernels with most samples; nothing where there are none."""
    if "find_hotspots" not in collector.tools or collector.store.file(manifest, "samples") is None:
        return
    subject = {"workload": manifest.id}
    first = collector.answer(_ReportSection("hotspots", "find_hotspots", _HOT_LINES), subject)
    yield first
    if "problem" in first:
        return
    others = first["answer"]["kernels"]
    at = others["columns"].index("number")
    for number in [row[at] for row in others["rows"]][: _HOT_KERNELS - 1]:
        yield collector.answer(_ReportSection("hotspots", "find_hotspots", {"kernel": number, **_HOT_LINES}), subject)


def _comparison(collector: _ReportCollector, baseline: Manifest, candidate: Manifest) -> Document:
    pair = {"baseline": baseline.id, "candidate": candidate.id}
    return {**pair, **collector.answer(_ReportSection("comparison", "compare_workloads", {"detail": "full"}), pair)}


def _kernels(value: Any, called: str = "") -> Iterator[str]:
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
    elif called == "kernel" and isinstance(value, str):
        yield value
