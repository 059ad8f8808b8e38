"""Collect what a report shows: one document with the answers of the tools about workloads and their comparisons.

Nothing is computed here. Every section is the unchanged answer of a tool, within limits; truncation is reported. The
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
"""Version of the document format, which the page checks."""
MOST_WORKLOADS = 8
_SPEED_OF_LIGHT = {"cpu": "*"}
"""Name of the speed-of-light panel by target, where it differs."""
_PANEL = "2"
_OCCUPANCY, _TIMELINE_ROWS = 500, 100
_HOT_KERNELS, _HOT_LINES = 5, {"top_n": 30, "context": 8, "detail": "full"}
"""Number of kernels whose lines are shown, and how many lines of each."""
Document = dict[str, Any]
Arguments = Mapping[str, Any]
Tools = Mapping[str, Callable[..., Result]]


@dataclass(frozen=True)
class ReportLimits:
    """How much of a workload a report contains."""

    kernels: int = 500
    """Maximum kernels in tables and rooflines."""
    events: int = 100_000
    diagnosed: int = 10
    apart: int = 20
    """Maximum kernels whose speed of light is shown individually."""


@dataclass(frozen=True)
class _ReportSection:
    """One part of a report: the tool that answers it, and its arguments besides the workload."""

    key: str
    tool: str
    arguments: Arguments
    without: frozenset[str] = frozenset()
    """Fields that another section shows."""


def collect(store: Store, tools: Tools, words: Sequence[str], limits: ReportLimits = ReportLimits()) -> Document:
    """Return the document about the workloads in ``words``; the first one is the baseline for the others.

    A section without data contains the Problem as text. Raises NotFound for an unknown workload, and BadArgument for
    too many workloads or one that is named twice.
    """
    if not 1 <= len(words) <= MOST_WORKLOADS:
        raise BadArgument(
            f"{count_text(len(words), 'workload is', 'workloads are')} named", fix=f"Name from 1 to {MOST_WORKLOADS}"
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
    """Answers the sections of a report and records what was truncated."""

    store: Store
    tools: Tools
    limits: ReportLimits
    cut: list[str] = field(default_factory=list)

    def answer(self, section: _ReportSection, subject: Arguments) -> Document:
        """Return the answer of a tool together with its arguments, or the reason for a missing answer."""
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
    """Return all sections of one workload."""
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
    """Yield the views of the roofline picture: work by data type or instructions, measured or theoretical ceilings.

    Theory is requested only if the first answer has measured ceilings; otherwise it is theoretical already.
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
    """Yield the hot lines of the kernels with the most samples; nothing if there are no samples."""
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
    """Yield every kernel name in a document: values of a field or a column with that name."""
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
