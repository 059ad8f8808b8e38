"""Compare measured rates with theory: plausible, suspect or impossible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ....analysis.base.wording import Wordings
from ....analysis.catalogue import targets
from ....analysis.catalogue.work_formulas import work_formulas
from ....analysis.launches.device_clocks import FAULTS, ClockState
from ....analysis.rooflines.ceilings import theoretical_ceilings
from ....analysis.store import measured_ceilings as peaks
from ....analysis.store.store import Manifest, Store
from ....analysis.workload import Workload
from ...base.results import NextCall, Table, table
from .runtime import OpenGpu
from .specs import BenchmarkSpec, Unit

_sentence = Wordings(Path(__file__).with_suffix(".toml")).sentence
Status = Literal["ok", "suspect", "impossible", "failed", "not_supported", "skipped"]
_TIMER_PCT = 100.5
"""Rates above 100 % but below this are explained by the resolution of the events."""
_CACHE_SHARE = 0.8


@dataclass(frozen=True)
class CeilingOutcome:
    """A measured ceiling, or why it was not measured. ``value`` is the median in ``unit``; in us, less is better."""

    ceiling: str
    unit: Unit
    status: Status
    reason: str = ""
    value: float | None = None
    median: float | None = None
    p05: float | None = None
    p95: float | None = None
    n: int = 0
    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    """Median of the samples."""
    held_back: str = ""
    """What limited the clock, longest first, as named in analysis/launches/device_clocks.py."""
    theoretical: float | None = None
    pct_of_theoretical: float | None = None
    pct_at_clock: float | None = None
    """Share of the theoretical rate at the sampled clock, in percent."""
    intensity: float | None = None
    """FLOP per byte of device memory, for the points of a sweep."""
    kernel: str = ""
    grid: int = 0
    """Number of groups in a launch."""
    workgroup_size: int = 0
    work_per_launch: float = 0
    """Bytes, operations or wave instructions."""
    method: str = ""
    compiler: str = ""
    """The compiler of the kernel, and the runtime that loaded it."""
    check: str = ""


def sampled(outcome: CeilingOutcome, samples: Sequence[float]) -> CeilingOutcome:
    """Add the median of samples of its rate or time to an outcome, and between which values nine in ten of them lie."""
    p05, median, p95 = map(float, np.quantile(samples, (0.05, 0.5, 0.95)))
    return replace(outcome, value=median, median=median, p05=p05, p95=p95, n=len(samples))


Mode = Literal["full", "quick", "functional"]
CeilingProgress = Callable[[str, int, int, CeilingOutcome | None], None]
"""Receives the name, the number and the total of ceilings, and the outcome when there is one."""


@dataclass(frozen=True)
class Theory:
    """Theoretical ceilings of a device at its highest clock, with the factor by which a rate may exceed each."""

    values: Mapping[str, float]
    above: Mapping[str, float]

    def of(self, spec: BenchmarkSpec, intensity: float | None = None) -> float | None:
        """Return the ceiling of a micro-benchmark; for a point of a sweep, the lower of memory and arithmetic."""
        value = self.values.get(spec.ceiling)
        if intensity is None or value is None or "hbm.bw" not in self.values:
            return value
        return min(value, intensity * self.values["hbm.bw"])


def theory(device: OpenGpu, clock_mhz: float | None = None) -> Theory:
    """Return what the facts of target and product allow, or at ``clock_mhz`` of the compute units if given."""
    facts = _channels(device) | device.facts
    if clock_mhz is not None:
        facts |= {"max_sclk": clock_mhz, "max_sclk_matrix": clock_mhz}
    manifest = Manifest(name="", format="", vendor=device.vendor, arch=device.arch, device=device.name, facts=facts)
    with Workload(Store(""), manifest) as workload:
        known = theoretical_ceilings(workload).known
    formulas = work_formulas(device.arch)
    return Theory({n: c.value for n, c in known.items()}, {o.name: o.dual for o in formulas.operation})


def _channels(device: OpenGpu) -> dict[str, float]:
    """Return the target's numbers of memory and L2 channels; the data sheet of a known product takes precedence."""
    target = targets.gpu(device.arch)
    width = target.facts.get("hbm_channel_bits")
    known = {"num_hbm_channels": device.memory_bus_bits / width.value} if width and device.memory_bus_bits else {}
    dies = device.dies or (None if target.chiplets else 1)
    if dies and (channels := target.l2_channels(dies)):
        known["total_l2_chan"] = channels
    return known


def judge_outcome(
    outcome: CeilingOutcome, spec: BenchmarkSpec, boost: Theory, theory_at_clock: Theory | None
) -> CeilingOutcome:
    """Add the share of theory to an outcome and, if its rate cannot be real, the corresponding status."""
    top, value = boost.of(spec, outcome.intensity), outcome.value
    if top is None or value is None:
        return outcome
    pct = 100 * value / top
    at_clock = (
        theory_at_clock.of(spec, outcome.intensity) if theory_at_clock and not spec.ceiling.startswith("hbm") else None
    )
    most = _TIMER_PCT * boost.above.get(spec.ceiling, 1.0)
    status, reason = outcome.status, outcome.reason
    if pct > most:
        status = "impossible"
        reason = _sentence("impossible", pct=pct)
    elif pct > 100:
        reason = _join(reason, _sentence("above_peak"))
    return replace(
        outcome,
        status=status,
        reason=reason,
        theoretical=top,
        pct_of_theoretical=pct,
        pct_at_clock=100 * value / at_clock if at_clock else None,
    )


def held_back(outcome: CeilingOutcome, state: ClockState | None) -> CeilingOutcome:
    """Add the sensor readings and what limited the clock to an outcome.

    A rate limited by temperature, current or hardware is suspect, because it is not what the device can do. The power
    limit is part of what it can do, so it is only reported.
    """
    if state is None:
        return outcome
    causes = ",".join(state.notable_causes)
    outcome = replace(outcome, temperature_c=state.celsius, power_w=state.watts, held_back=causes)
    if not causes:
        return outcome
    faults = outcome.status == "ok" and not FAULTS.isdisjoint(state.notable_causes)
    reason = _join(outcome.reason, _sentence("held_back", state=state))
    return replace(outcome, status="suspect" if faults else outcome.status, reason=reason)


def compare_caches(outcomes: list[CeilingOutcome]) -> list[CeilingOutcome]:
    """Compare outcomes with each other: an L2 rate close to that of the vector L1 was not measured in L2."""
    rates = {o.ceiling: o.value for o in outcomes if o.value}
    l2, vl1d = rates.get("l2.bw"), rates.get("vl1d.bw")
    if not l2 or not vl1d or l2 < _CACHE_SHARE * vl1d:
        return outcomes
    reason = _sentence("other_cache", pct=100 * l2 / vl1d)
    return [
        replace(o, status="suspect", reason=reason) if (o.ceiling, o.status) == ("l2.bw", "ok") else o for o in outcomes
    ]


def best_of_memory(outcomes: list[CeilingOutcome]) -> CeilingOutcome | None:
    """Return the ceiling hbm.bw: the highest plausible rate of copy, triad, read and write, and which it was."""
    ways = [o for o in outcomes if o.ceiling.startswith("hbm.") and o.value and o.status in ("ok", "suspect")]
    if not ways:
        return None
    top = max(ways, key=lambda o: o.value or 0)
    return replace(top, ceiling="hbm.bw", method=_sentence("best_way", top=top, ways=len(ways)))


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


_COLUMNS: dict[str, str | None] = {
    **dict.fromkeys(("ceiling", "value", "unit", "median", "p05", "p95", "n")),
    "clock_mhz": "MHz",
    "theoretical": None,
    "pct_of_theoretical": "%",
    **dict.fromkeys(("kernel", "status", "reason")),
}
_DIGITS = 5
_REASON = 160
_METHODS = 3

Row = Mapping[str, Any]


def ceilings(rows: Sequence[Row]) -> Table:
    """Return one row per ceiling, with rates and times in the row's unit, rounded to five digits. Sweep points are
    described in words."""
    single = [row for row in rows if row.get("intensity") is None]
    # For a kernel that was only checked, "ok" is sufficient.
    single = [row if row.get("value") or row.get("status") != "ok" else {**row, "reason": None} for row in single]
    return table(_COLUMNS, [[_cell(row.get(name)) for name in _COLUMNS] for row in single])


def notes(rows: Sequence[Row], mode: str) -> list[str]:
    """Return notes on what the table does not show: sweeps, methods, errors, and why theory may be missing."""
    sentences = []
    # A run that failed before its first kernel reports that itself.
    if mode == "functional" and rows:
        right = sum(row.get("status") == "ok" for row in rows)
        sentences.append(_sentence("right", right=right, kernels=len(rows)))
    for name in dict.fromkeys(row["ceiling"] for row in rows if row.get("intensity") is not None):
        points = [row for row in rows if row["ceiling"] == name and row.get("value")]
        if points:
            low, high = (pick(points, key=lambda r: r["intensity"]) for pick in (min, max))
            sentences.append(_sentence("sweep", name=name, points=len(points), low=low, high=high))
    if doubtful := list(dict.fromkeys(row["ceiling"] for row in rows if row.get("status") == "impossible")):
        sentences.append(_sentence("doubtful", names=doubtful))
    if mode != "functional" and any(str(row["ceiling"]).startswith("host.") for row in rows):
        sentences.append(_sentence("host"))
    if compilers := list(dict.fromkeys(str(row["compiler"]) for row in rows if row.get("compiler"))):
        sentences.append(_sentence("compilers", compilers="; ".join(compilers[:_METHODS])))
    if mode != "functional":
        methods = list(dict.fromkeys(str(row["method"]) for row in rows if row.get("method") and row.get("value")))
        if 0 < len(methods) <= _METHODS:
            sentences.append(_sentence("methods", methods="; ".join(methods)))
    return sentences


def next_calls() -> list[NextCall]:
    """Suggest what to do with measured ceilings."""
    sql = "SELECT device, ceiling, intensity, value, unit, p05, p95, measured_at FROM ceilings WHERE kind = 'empirical'"
    return [NextCall(tool="query_counters", arguments={"sql": sql}, why="all measured ceilings, sweeps included")]


def missing(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return the ceilings in ``names`` that ``rows`` neither contain nor permanently exclude."""
    known = {row["ceiling"] for row in rows if row["status"] in (*peaks.USABLE, "impossible", "not_supported")}
    return [name for name in names if name not in known]


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value[:_REASON] if isinstance(value, str) else value
