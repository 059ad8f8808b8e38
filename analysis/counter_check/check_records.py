"""Results of checks on devices, kept in the store: which metrics hold there, with the formula that was checked.

Layout: ``<store>/check/<target>-<device>/<id>.json``, one file per check, never changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Literal

import pydantic

from ..base.problems import StoreProblem
from ..catalogue import metrics as catalog
from ..catalogue.formula import references
from ..store.manifest import Manifest
from ..store.store import Store, new_id, write_atomically

_MOST_BYTES = 4 << 20
_MOST_FILES = 200
"""How many of the newest files are read."""


class MetricCheck(pydantic.BaseModel):
    """The result of a check for one metric."""

    verdict: Literal["holds", "off"]
    formula: str
    """The digest of the checked formula; the check does not confirm any other formula."""
    factor: float | None = None
    cause: str = ""


class Record(pydantic.BaseModel):
    """One check: the device, the profiler, the time, and the verdicts by metric. It names no person or machine."""

    target: str
    device: str | None
    tool: str | None
    tool_version: str | None
    driver: str | None = None
    rooflens: str = ""
    checked_at: str
    metrics: dict[str, MetricCheck]


def save(store: Store, record: Record) -> None:
    """Store the results of a check. Raises StoreProblem if the disk cannot be written."""
    now = time.time_ns()
    name = re.sub(r"[^\w.-]+", "_", f"{record.target}-{record.device or 'unknown'}")[:120].strip("._")
    path = store.root / "check" / name / f"{new_id(now)}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, record.model_dump_json(indent=1))
    except OSError as error:
        raise StoreProblem(
            "The results of the check cannot be stored", error.strerror or str(error), "Free space on the store's disk"
        ) from error


def records(store: Store) -> list[Record]:
    """Every check that can be read, newest first."""
    files = sorted(store.root.glob("check/*/*.json"), key=lambda path: path.name, reverse=True)[:_MOST_FILES]
    checks = []
    for path in files:
        try:
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                checks.append(Record.model_validate_json(path.read_bytes()))
        except (OSError, pydantic.ValidationError):
            # A damaged file confirms nothing.
            continue
    return checks


def known_checks(store: Store, manifest: Manifest) -> dict[str, MetricCheck]:
    """The newest check of each metric on the device and with the profiler of a workload.

    Verdicts on formulas that have changed since are omitted.
    """
    target = manifest.arch or ""
    if target not in catalog.targets_with_metrics():
        return {}
    fitting = [
        record
        for record in records(store)
        if record.target == target
        and record.tool == manifest.tool
        and _same(record.device, manifest.device)
        and _same(record.tool_version, manifest.tool_version)
    ]
    newest: dict[str, MetricCheck] = {}
    for record in reversed(fitting):
        newest |= record.metrics
    return {name: one for name, one in newest.items() if one.formula == digests(target).get(name)}


def _same(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def confirmations(store: Store) -> dict[str, dict[str, list[str]]]:
    """Metric -> verdict -> devices on which a check of the current formula gave this verdict."""
    devices_by_verdict: dict[str, dict[str, list[str]]] = {}
    for record in records(store):
        if record.target not in catalog.targets_with_metrics():
            continue
        digest = digests(record.target)
        for name, one in record.metrics.items():
            device = record.device or record.target
            verdicts = devices_by_verdict.setdefault(name, {})
            if one.formula == digest.get(name) and not any(device in devices for devices in verdicts.values()):
                verdicts.setdefault(one.verdict, []).append(device)
    return devices_by_verdict


@cache
def digests(target: str) -> dict[str, str]:
    """Metric -> a short digest of everything that its figure is computed from: expressions, and the terms in them."""
    terms = catalog.alternatives(target)
    return {metric.name: _digest(metric, terms) for metric in catalog.metrics(target)}


def _digest(metric: catalog.Metric, terms: Mapping[str, tuple[str, ...]]) -> str:
    stated = [metric.num, metric.den or "", metric.finish or "", metric.rule, metric.unit, str(metric.norm)]
    reached: dict[str, tuple[str, ...]] = {}
    waiting = [text for text in stated[:3] if text]
    while waiting:
        for name in references(waiting)[waiting.pop()]:
            if name in terms and name not in reached:
                reached[name] = terms[name]
                waiting += terms[name]
    text = json.dumps([*stated, sorted(metric.uses.items()), sorted(reached.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
