"""Collect what a report shows: one document with the answers of the tools about workloads and their comparisons.

Nothing is computed here. Every section is the answer of a tool, within limits; truncation is reported. Sentences are in
the words of the device's vendor. The tools are those of the caller, by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, partial
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
_APART, _OCCUPANCY, _TIMELINE_ROWS = 20, 500, 100
"""Maximum kernels whose figures are shown individually, and maximum rows of tables."""
_SHOWN_ELSEWHERE = {"timeline": {"kernels"}}
"""Fields of a section's answer that another section shows."""
_HOT_KERNELS = 5
"""Number of kernels whose lines and instructions are shown."""
_HOT_LINES: Document = {"top_n": 30, "context": 8, "detail": "full"}
_HOT_INSTRUCTIONS: Document = {"by": "instruction", "top_n": 250, "detail": "full"}
_ACCOUNTS = {"device_time": "The time of the device", "wave_time": "The lifetime of its waves"}
"""Fields of a diagnosed kernel that divide a time completely -> what they divide."""
Document = dict[str, Any]
Tools = Mapping[str, Callable[..., Result]]


@dataclass(frozen=True)
class ReportLimits:
    """How much of a workload a report contains."""

    kernels: int = 500
    """Maximum kernels in tables and rooflines."""
    events: int = 100_000
    diagnosed: int = 50


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
    comparisons = [
        {**pair, **collector.answer("comparison", "compare_workloads", **pair, detail="full")} for pair in pairs
    ]
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

    def answer(self, key: str, tool: str, **arguments: Any) -> Document:
        """Return a section: the answer of a tool with its arguments, or the reason why there is none."""
        title, without = key.replace("_", " "), _SHOWN_ELSEWHERE.get(key, set())
        tell(f"report: {title}")
        section: Document = {"key": key, "tool": tool, "arguments": arguments}
        try:
            result = self.tools[tool](self.store, **arguments)
        except Problem as problem:
            return {**section, "problem": {"what": problem.what, "why": problem.why, "fix": problem.fix}}
        for name, value in result:
            if isinstance(value, Table) and value.truncated and name not in without:
                total = "more" if value.total_rows is None else value.total_rows
                self.cut.append(f"{title}, {name}: {count_text(len(value.rows), 'row')} of {total}.")
        section["answer"] = result.model_dump(mode="python", exclude={"next", *without})
        return section | ({"more": _verdicts(result)} if key == "diagnosis" else {})


def _workload(collector: _ReportCollector, manifest: Manifest) -> Document:
    """Return all sections of one workload."""
    gpu = targets.find_target(manifest.arch or "")
    sections = {section["key"]: section for section in _sections(collector, manifest)}
    drawn = events(collector.store, manifest.id, collector.limits.events) if manifest.events else None
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


def _sections(collector: _ReportCollector, manifest: Manifest) -> Iterator[Document]:
    answer, limits = partial(collector.answer, workload=manifest.id), collector.limits
    panel: Document = {"metrics": [_SPEED_OF_LIGHT.get(manifest.arch or "", _PANEL)], "detail": "full", "limit": 10_000}
    yield answer("kernels", "list_workloads", limit=limits.kernels)
    if manifest.dispatches:
        yield answer("launches", "list_workloads", by="launch", limit=limits.kernels)
    if manifest.events or (manifest.dispatches and not manifest.counters):
        yield answer("timeline", "compute_timeline", top_n=_TIMELINE_ROWS)
    yield answer("speed_of_light", "compute_metrics", **panel)
    if manifest.counters and manifest.kernels > 1:
        yield answer("speed_of_light_of_kernels", "compute_metrics", **panel, **_by_kernel(manifest))
    yield answer("occupancy", "compute_occupancy", limit=_OCCUPANCY)
    yield answer("diagnosis", "diagnose_bottleneck", top_n=limits.diagnosed, detail="full")


def _by_kernel(manifest: Manifest) -> dict[str, Any]:
    """Return the arguments that ask for the figures of single kernels."""
    return {"by": "kernel", "kernel": ",".join(f"#{n + 1}" for n in range(min(_APART, manifest.kernels)))}


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
    section = collector.answer(
        "memory_chart",
        "compute_metrics",
        workload=manifest.id,
        metrics=sorted({m for m in drawn if m}),
        **_by_kernel(manifest),
        detail="full",
        limit=10_000,
    )
    units = [{**unit, "title": in_vendor_terms(unit["title"], manifest.arch)} for unit in chart["unit"]]
    return {"units": units, "links": chart["link"], **section}


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
    whole: Document = {"detail": "full", "limit": collector.limits.kernels}
    kinds: dict[str, Document] = {"operations": {"datatype": "all"}, "instructions": {"kind": "instruction"}}
    answer = partial(collector.answer, tool="compute_roofline", workload=manifest.id)
    for key, kind in kinds.items():
        for source in ("empirical", "theoretical"):
            section = answer(key, ceiling_source=source, **kind, **whole)
            yield section
            if "problem" in section or section["answer"]["ceiling_source"] == "theoretical":
                break


def _hotspots(collector: _ReportCollector, manifest: Manifest) -> Iterator[Document]:
    """Yield the hot lines of the kernels with the most samples; nothing if there are no samples."""
    if "find_hotspots" not in collector.tools or collector.store.file(manifest, "samples") is None:
        return
    answer = partial(collector.answer, tool="find_hotspots", workload=manifest.id)
    first = answer("hotspots", **_HOT_LINES)
    if "problem" in first:
        yield first
        return
    others = first["answer"]["kernels"]
    at = others["columns"].index("number")
    for one in [{}, *({"kernel": row[at]} for row in others["rows"][: _HOT_KERNELS - 1])]:
        code = answer("instructions", **one, **_HOT_INSTRUCTIONS)
        lines = answer("hotspots", **one, **_HOT_LINES) if one else first
        yield {**lines, "instructions": code["answer"]["hotspots"] if "answer" in code else None}


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
