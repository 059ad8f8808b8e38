"""What bars show, in figures and in words: percent of peak of one workload, or of two with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..base.problems import BadInput
from ..base.text import count_text
from ..engine import Figure
from ..store.store import Manifest
from .bars import BarPicture, Row, Time, Value
from .style import number

PANEL, DURATION = "2", "dispatch.duration_ns"
"""The metrics whose figures the pictures take: the panel of speed of light, and for two workloads the time."""
_UNCHECKED = "No verdict: whether both did the same work is not checked here, so less time may mean less work."
_DOUBTFUL = ("suspect", "impossible")


def speed_of_light(manifest: Manifest, figures: Sequence[Figure], kernel: str | None) -> tuple[BarPicture, list[str]]:
    """Every figure that has a peak and a value. BadInput where none has."""
    rows = [_row(f) for f in figures if f.pct_of_peak is not None]
    missing = _missing(figures)
    if not rows:
        raise BadInput(
            f"No figure of speed of light has a value in {manifest.name!r}", " ".join(missing), "Profile with panel 2"
        )
    picture = BarPicture(
        title=f"Speed of light of {manifest.name}",
        subtitle=f"{manifest.device or ''} ({manifest.arch}); {_selection_text(manifest, kernel)}; theoretical peaks",
        rows=_by_subsystem(rows),
        statements=[*_doubts(rows, figures), *missing],
    )
    words = [
        f"{f.metric.subsystem}: {f.metric.title} {number(f.value)} {f.unit}"
        + (f", {number(f.pct_of_peak)} % of {number(f.peak)}" if f.pct_of_peak is not None and f.peak else "")
        + (f" ({f.status}: {f.reason})" if f.status != "ok" else "")
        + "."
        for f in figures
        if f.value is not None
    ]
    return picture, [*words, *missing]


def comparison(
    workloads: tuple[Manifest, Manifest],
    figures: tuple[Sequence[Figure], Sequence[Figure]],
    kernel: str | None,
    outcome: str | None = None,
) -> tuple[BarPicture, list[str]]:
    """Time and speed of light of two workloads; a row for each figure that one of them has.

    ``outcome`` is what a comparison of them found, in words; without it the picture says that nothing was checked.
    """
    baseline, candidate = workloads
    times = (_time(baseline, figures[0]), _time(candidate, figures[1]))
    named = [{f.name: f for f in of_one if f.pct_of_peak is not None} for of_one in figures]
    rows, idle = [], []
    for name in dict.fromkeys([*named[0], *named[1]]):
        pair = [by_name.get(name) for by_name in named]
        first = next(f for f in pair if f is not None)
        if all(f is not None and f.value == 0 for f in pair):
            idle.append(_title(first))
            continue
        rows.append(replace(_row(first), values=[_value(f) if f else None for f in pair]))
    notes = [f"Percent of each workload's own theoretical peaks. {outcome or _UNCHECKED}"]
    if baseline.arch != candidate.arch:
        notes.append(f"Different GPUs: {baseline.arch} and {candidate.arch}.")
    if idle:
        notes.append(f"0 in both: {', '.join(idle)}.")
    if not rows:
        notes.append("Neither has a figure of speed of light: " + " ".join(_missing(figures[0])))
    notes += _doubts(rows, [*figures[0], *figures[1]])
    if not rows and not any(t.total_ns for t in times):
        raise BadInput("There is nothing to compare", notes[-1], "Profile both with panel 2")
    picture = BarPicture(
        title=f"{baseline.name} → {candidate.name}",
        subtitle=f"{baseline.device or ''} ({baseline.arch}); {_selection_text(baseline, kernel)}",
        rows=_by_subsystem(rows),
        statements=notes,
        times=times,
    )
    words = [
        f"{role} {t.name}: {'no usable timing' if not t.total_ns else f'{number(t.total_ns / 1e6)} ms'} "
        f"in {count_text(t.dispatches, 'dispatch')}."
        for role, t in zip(("Baseline", "Candidate"), times, strict=True)
    ]
    words += [
        f"{r.subsystem}: {r.title} " + " -> ".join("no value" if v is None else f"{number(v.pct)} %" for v in r.values)
        for r in picture.rows
    ]
    return picture, [*words, *notes]


def _row(f: Figure) -> Row:
    return Row(f.metric.subsystem, _title(f), f.unit, f.peak or 0.0, [_value(f)])


def _value(f: Figure) -> Value:
    return Value(f.value or 0.0, f.pct_of_peak or 0.0, f.status if f.status in _DOUBTFUL else "")


def _title(f: Figure) -> str:
    """The title without the unit's name that its group of bars already says."""
    short = f.metric.title.replace("Bank conflict cycles", "Conflict cycles").replace(
        "Active lanes per VALU", "Lanes per VALU"
    )
    for prefix in ("Scalar ", "Vector ", "L2-fabric ", "LDS ", "L2 ", "VALU ", "SALU "):
        short = short.removeprefix(prefix)
    return short[0].upper() + short[1:] + (" ↓" if f.metric.better == "lower" else "")


def _by_subsystem(rows: list[Row]) -> list[Row]:
    order = {name: i for i, name in reversed(list(enumerate(r.subsystem for r in rows)))}
    return sorted(rows, key=lambda r: order[r.subsystem])


def _missing(figures: Sequence[Figure]) -> list[str]:
    """The figures without a value, with the reasons that occur most."""
    lost = [f for f in figures if f.value is None]
    if not lost:
        return []
    names = ", ".join(f.name.replace(".sol_", ".") for f in lost)
    reasons = list(dict.fromkeys(str(f.reason or "") for f in lost))
    why = f" ({reasons[0]})" if len(reasons) == 1 and reasons[0] else ""
    return [f"No value for {len(lost)} of {count_text(len(figures), 'figure')}: {names}{why}."]


def _doubts(rows: list[Row], figures: Sequence[Figure]) -> list[str]:
    odd = any(v is not None and v.doubt for r in rows for v in r.values)
    low = any(r.title.endswith("↓") for r in rows)
    doubted = dict.fromkeys(f.reason.text for f in figures if f.reason and f.reason.code == "doubted")
    why = "; ".join(list(doubted)[:2]) or "counters of different replays that do not fit together"
    hatched = [f"Hatched bars are doubtful: {why}."] if odd else []
    timed = next((f.reason for f in figures if f.name == DURATION and f.status == "suspect"), None)
    hatched += [f"The times are suspect: {timed}."] if timed else []
    return [*hatched, *(["↓ lower is better."] if low else [])]


def _selection_text(manifest: Manifest, kernel: str | None) -> str:
    many = "all kernels" if manifest.kernels != 1 else "its one kernel"
    return (
        f"kernel {kernel}" if kernel else f"{many}, {manifest.dispatches} dispatch{'es' * (manifest.dispatches != 1)}"
    )


def _time(manifest: Manifest, figures: Sequence[Figure]) -> Time:
    time = next((f for f in figures if f.name == DURATION), None)
    if time is None or time.value is None:
        return Time(manifest.name, None, manifest.dispatches)
    return Time(manifest.name, time.value * time.n, time.n)
