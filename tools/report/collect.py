"""Collect what a report shows: one document with the answers of the tools about workloads and their comparisons.

Nothing is computed here. Every section is the answer of a tool, within limits; truncation is reported. Sentences are in
the words of the device's vendor. The tools are those of the caller, by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ... import __version__
from ...analysis.base.kernel_names import distinct
from ...analysis.base.problems import BadArgument, Problem
from ...analysis.base.text import count_text
from ...analysis.catalogue import files, targets
from ...analysis.catalogue import metrics as catalog
from ...analysis.catalogue.vocabulary import in_vendor_terms, limit_words
from ...analysis.store.schema import iso
from ...analysis.store.store import Manifest, Store
from ..answers.verdict_text import kernel_sentence
from ..base.progress import report as tell
from ..base.results import Result, Table
from .host_stacks import host_stacks
from .trace_export import events

FORMAT = 2
"""Version of the document format, which the page checks."""
MOST_WORKLOADS = 8
_SPEED_OF_LIGHT = {"cpu": "*"}
"""Name of the speed-of-light panel by target, where it differs."""
_PANEL = "2"
_OCCUPANCY, _TIMELINE_ROWS = 500, 100
_HOT_KERNELS, _HOT_LINES = 5, {"top_n": 30, "context": 8, "detail": "full"}
"""Number of kernels whose lines are shown, and how many lines of each."""
_HOT_INSTRUCTIONS = {"by": "instruction", "top_n": 250, "detail": "full"}
_ACCOUNTS = {"device_time": "The time of the device", "wave_time": "The lifetime of its waves"}
"""Fields of a diagnosed kernel that divide a time completely -> what they divide."""
Document = dict[str, Any]
Arguments = Mapping[str, Any]
Tools = Mapping[str, Callable[..., Result]]


@dataclass(frozen=True)
class ReportLimits:
    """How much of a workload a report contains."""

    kernels: int = 500
    """Maximum kernels in tables and rooflines."""
    events: int = 100_000
    diagnosed: int = 50
    apart: int = 20
    """Maximum kernels whose speed of light and memory traffic are shown individually."""


@dataclass(frozen=True)
class _ReportSection:
    """One part of a report: the tool that answers it, and its arguments besides the workload."""

    key: str
    tool: str
    arguments: Arguments
    without: frozenset[str] = frozenset()
    """Fields that another section shows."""
    more: Callable[[Any], Any] | None = None
    """What the page says about the result besides its fields."""


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
    pairs = [{"baseline": manifests[0].id, "candidate": other.id} for other in manifests[1:]]
    compared = _ReportSection("comparison", "compare_workloads", {"detail": "full"})
    comparisons = [{**pair, **collector.answer(compared, pair)} for pair in pairs]
    names = sorted(set(_texts([*workloads, *comparisons], {"kernel"})))
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
        answer = result.model_dump(mode="python", exclude={"next", *section.without})
        return {**section_document, "answer": answer} | ({} if section.more is None else {"more": section.more(result)})


def _workload(collector: _ReportCollector, manifest: Manifest) -> Document:
    """Return all sections of one workload."""
    gpu = targets.find_target(manifest.arch or "")
    subject, limits = {"workload": manifest.id}, collector.limits
    sections = {s.key: collector.answer(s, subject) for s in _sections(manifest, limits)}
    drawn = events(collector.store, manifest.id, limits.events) if manifest.events else None
    if drawn and drawn["total"] > len(drawn["lane"]):
        collector.cut.append(
            f"{manifest.name}: the {len(drawn['lane'])} longest of {count_text(drawn['total'], 'event')} and "
            "ranges are drawn."
        )
    shown = {
        "sections": sections,
        "rooflines": list(_rooflines(collector, manifest)),
        "memory": _memory_chart(collector, manifest),
    }
    hotspots = list(_hotspots(collector, manifest))
    return {
        **manifest.model_dump(include={"id", "name", "arch", "device"}),
        "vendor": gpu.vendor if gpu else None,
        **shown,
        "hotspots": hotspots,
        "meanings": _meanings(manifest.arch, shown),
        "events": drawn,
        "host_stacks": host_stacks(collector.store, manifest.id) if manifest.events else None,
    }


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
        shown = {**panel, **_by_kernel(manifest, limits)}
        yield _ReportSection("speed_of_light_of_kernels", "compute_metrics", shown)
    yield _ReportSection("occupancy", "compute_occupancy", {"limit": _OCCUPANCY})
    diagnosed = {"top_n": limits.diagnosed, "detail": "full"}
    yield _ReportSection("diagnosis", "diagnose_bottleneck", diagnosed, more=_verdicts)


def _by_kernel(manifest: Manifest, limits: ReportLimits) -> Arguments:
    """Return the arguments that ask for the figures of single kernels."""
    return {"by": "kernel", "kernel": ",".join(f"#{n + 1}" for n in range(min(limits.apart, manifest.kernels)))}


def _verdicts(result: Any) -> list[Document]:
    """Return for each diagnosed kernel what limits it in words, and the accounts of its time as (view, parts)."""
    made = []
    for one, stated in zip(result.kernels, result.model_dump(include={"kernels"})["kernels"], strict=True):
        accounts = [
            {"view": in_vendor_terms(view, result.arch), "parts": stated[name]}
            for name, view in _ACCOUNTS.items()
            if stated.get(name)
        ]
        limit = limit_words(one.verdict.subsystem, one.verdict.beside, target=result.arch)
        made.append({"sentence": kernel_sentence(one, result.arch), "limit": limit, "accounts": accounts})
    return made


def _memory_chart(collector: _ReportCollector, manifest: Manifest) -> Document | None:
    """Return the units of the memory path with their figures by kernel; None for a target without a chart."""
    gpu = targets.find_target(manifest.arch or "")
    chart = memory_charts().get(gpu.family) if gpu else None
    if chart is None or not manifest.counters or manifest.arch not in catalog.targets_with_metrics():
        return None
    drawn = [
        *(u.get("load") for u in chart["unit"]),
        *(m for u in chart["unit"] for m in u.get("figures", {}).values()),
    ]
    drawn += [link.get(way) for link in chart["link"] for way in ("read", "write", "both")]
    asked = {"metrics": sorted({m for m in drawn if m}), **_by_kernel(manifest, collector.limits), "detail": "full"}
    section = _ReportSection("memory_chart", "compute_metrics", {**asked, "limit": 10_000})
    units = [{**unit, "title": in_vendor_terms(unit["title"], manifest.arch)} for unit in chart["unit"]]
    return {"units": units, "links": chart["link"], **collector.answer(section, {"workload": manifest.id})}


@cache
def memory_charts() -> Document:
    """The memory path of each family of targets, as in memory_chart.toml."""
    return files.load(Path(__file__).with_name("memory_chart.toml"))


def _meanings(arch: str | None, shown: Document) -> Document:
    """Return title, unit and description of each metric in a document."""
    if arch not in catalog.targets_with_metrics():
        return {}
    known = catalog.by_name(arch)
    names = {name.removeprefix("pct_of_peak.") for name in _texts(shown, {"name", "metric"})}
    return {n: [known[n].title, known[n].unit, known[n].description] for n in sorted(names & known.keys())}


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
    if "problem" in first:
        yield first
        return
    others = first["answer"]["kernels"]
    at = others["columns"].index("number")
    for one in [{}, *({"kernel": row[at]} for row in others["rows"][: _HOT_KERNELS - 1])]:
        lines = _ReportSection("hotspots", "find_hotspots", {**one, **_HOT_LINES})
        code = _ReportSection("instructions", "find_hotspots", {**one, **_HOT_INSTRUCTIONS})
        listed = collector.answer(code, subject)
        answer = collector.answer(lines, subject) if one else first
        yield {**answer, "instructions": listed["answer"]["hotspots"] if "answer" in listed else None}


def _texts(value: Any, words: Set[str], called: str = "") -> Iterator[str]:
    """Yield every text in a document in fields and columns that are called one of ``words``, such as kernel names."""
    if isinstance(value, dict):
        if isinstance(columns := value.get("columns"), list):
            held = [at for at, name in enumerate(columns) if name in words]
            yield from (row[at] for row in value["rows"] for at in held if isinstance(row[at], str))
            return
        for key, part in value.items():
            yield from _texts(part, words, key)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, words, called)
    elif called in words and isinstance(value, str):
        yield value
