"""What the pictures of occupancy, speed of light and comparison show, in figures and in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..analysis.catalogue import targets
from ..analysis.engine import evaluation as engine
from ..analysis.occupancy import Occupancy
from ..analysis.occupancy import occupancy as occupancy_of
from ..analysis.plot import compare, occupancy, speed_of_light
from ..analysis.plot.bars import Row, Value
from ..analysis.plot.style import number
from ..analysis.problems import BadArgument, BadInput
from ..analysis.store import Manifest, Store
from ..analysis.workload import Workload
from .compute_occupancy import compute_occupancy
from .plot_roofline import records

_PANEL = "2"
_TIME = "dispatch.duration_ns"
_DOUBTFUL = ("suspect", "impossible")


def occupancy_scene(store: Store, manifest: Manifest, kernel: str | None) -> tuple[occupancy.Scene, list[str]]:
    """The longest of the kernels selected, with what else its waves could be."""
    result = compute_occupancy(store, workload=manifest.id, kernel=kernel, limit=1)
    row = records(result.kernels)[0]
    if row.get("reason") or row["vgprs"] is None or row["workgroup_size"] is None:
        why = row.get("reason") or "its registers or its work-group size are not stated"
        raise BadInput(f"The occupancy of {row['kernel']!r} cannot be drawn", str(why))
    base: dict[str, Any] = {name: row[name] or 0 for name in ("vgprs", "agprs", "sgprs", "lds_bytes", "workgroup_size")}

    def at(**changed: int) -> Occupancy | None:
        try:
            return occupancy_of(row["gpu"], **{**base, **changed})
        except BadArgument:
            return None

    found = occupancy_of(row["gpu"], **base)
    wave = "warp" if targets.gpu(row["gpu"]).vendor == "nvidia" else "wave"
    notes = [n for n in result.notes if n.startswith(("Measured", "Achieved", "The profile has no column"))]
    scene = occupancy.Scene(
        title=f"Occupancy on {row['gpu']}: {manifest.name}",
        kernel=str(row["kernel"]),
        found=found,
        sweeps=occupancy.sweeps(found, at),
        achieved=row.get("achieved_waves_per_cu"),
        statements=notes,
        wave=wave,
    )
    facts = [
        f"{row['kernel']}: {found.waves_per_cu} of {found.max_waves_per_cu} {wave}s per {found.unit} "
        f"({number(found.occupancy_pct)} %), limited by {', '.join(found.limiters)}.",
        f"It takes {row['vgprs']} VGPRs, {row['agprs'] or 0} AGPRs, {row['sgprs'] or 0} SGPRs, {row['lds_bytes'] or 0} "
        f"bytes of LDS, work-groups of {row['workgroup_size']}.",
        *(
            f"{' and '.join(f'{c.argument} {c.now} -> {c.to}' for c in w.changes)} would give {w.waves_per_cu} "
            f"{wave}s ({number(w.occupancy_pct)} %)."
            for w in found.what_if
        ),
    ]
    return scene, [*facts, *notes]


def _figures(store: Store, manifest: Manifest, metrics: list[str], kernel: str | None) -> list[engine.Figure]:
    with Workload(store, manifest) as workload:
        return engine.figures(workload, metrics, engine.View(kernel, quartiles=False))


def speed_scene(store: Store, manifest: Manifest, kernel: str | None) -> tuple[speed_of_light.Scene, list[str]]:
    """Every figure of the speed-of-light panel that has a peak and a value."""
    figures = _figures(store, manifest, [_PANEL], kernel)
    rows = [_row(f) for f in figures if f.pct_of_peak is not None]
    missing = _missing(figures)
    if not rows:
        raise BadInput(
            f"No figure of speed of light has a value in {manifest.name!r}", " ".join(missing), "Profile with panel 2"
        )
    scene = speed_of_light.Scene(
        title=f"Speed of light of {manifest.name}",
        subtitle=f"{manifest.device or ''} ({manifest.arch}); {_selected(manifest, kernel)}; theoretical peaks",
        rows=_by_subsystem(rows),
        statements=[*_doubts([rows]), *missing],
    )
    words = [
        f"{f.metric.subsystem}: {f.metric.title} {number(f.value)} {f.unit}"
        + (f", {number(f.pct_of_peak)} % of {number(f.peak)}" if f.pct_of_peak is not None and f.peak else "")
        + (f" ({f.status}: {f.reason})" if f.status != "ok" else "")
        + "."
        for f in figures
        if f.value is not None
    ]
    return scene, [*words, *missing]


def compare_scene(
    store: Store, baseline: Manifest, candidate: Manifest, kernel: str | None
) -> tuple[compare.Scene, list[str]]:
    """Time and speed of light of two workloads; a row for each figure that one of them has."""
    both = [_figures(store, m, [_PANEL, _TIME], kernel) for m in (baseline, candidate)]
    times = [_time(m, figures) for m, figures in zip((baseline, candidate), both, strict=True)]
    named = [{f.name: f for f in figures if f.pct_of_peak is not None} for figures in both]
    rows, idle = [], []
    for name in dict.fromkeys([*named[0], *named[1]]):
        pair = [found.get(name) for found in named]
        first = next(f for f in pair if f is not None)
        if all(f is not None and f.value == 0 for f in pair):
            idle.append(_title(first))
            continue
        rows.append(replace(_row(first), values=[_value(f) if f else None for f in pair]))
    notes = [
        "Percent of each workload's own theoretical peaks. No verdict: whether both did the same work is not checked "
        "here, so less time may mean less work."
    ]
    if baseline.arch != candidate.arch:
        notes.append(f"Different GPUs: {baseline.arch} and {candidate.arch}.")
    if idle:
        notes.append(f"0 in both: {', '.join(idle)}.")
    if not rows:
        notes.append("Neither has a figure of speed of light: " + " ".join(_missing(both[0])))
    notes += _doubts([rows])
    if not rows and not any(t.total_ns for t in times):
        raise BadInput("There is nothing to compare", notes[-1], "Profile both with panel 2")
    scene = compare.Scene(
        title=f"{baseline.name} → {candidate.name}",
        subtitle=f"{baseline.device or ''} ({baseline.arch}); {_selected(baseline, kernel)}",
        times=(times[0], times[1]),
        rows=_by_subsystem(rows),
        statements=notes,
    )
    words = [
        f"{role} {t.name}: {'no usable timing' if not t.total_ns else f'{number(t.total_ns / 1e6)} ms'} "
        f"in {t.dispatches} dispatches."
        for role, t in zip(("Baseline", "Candidate"), times, strict=True)
    ]
    words += [
        f"{r.subsystem}: {r.title} " + " -> ".join("no value" if v is None else f"{number(v.pct)} %" for v in r.values)
        for r in scene.rows
    ]
    return scene, [*words, *notes]


def _row(f: engine.Figure) -> Row:
    return Row(f.metric.subsystem, _title(f), f.unit, f.peak or 0.0, [_value(f)])


def _value(f: engine.Figure) -> Value:
    return Value(f.value or 0.0, f.pct_of_peak or 0.0, f.status if f.status in _DOUBTFUL else "")


def _title(f: engine.Figure) -> str:
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


def _missing(figures: list[engine.Figure]) -> list[str]:
    """The figures without a value, with the reasons that occur most."""
    lost = [f for f in figures if f.value is None]
    if not lost:
        return []
    names = ", ".join(f.name.replace(".sol_", ".") for f in lost)
    reasons = list(dict.fromkeys(f.reason or "" for f in lost))
    why = f" ({reasons[0]})" if len(reasons) == 1 and reasons[0] else ""
    return [f"No value for {len(lost)} of {len(figures)} figures: {names}{why}."]


def _doubts(groups: list[list[Row]]) -> list[str]:
    odd = any(v is not None and v.doubt for rows in groups for r in rows for v in r.values)
    low = any(r.title.endswith("↓") for rows in groups for r in rows)
    hatched = ["Hatched bars are doubtful: counters of different replays that do not fit together."] if odd else []
    return [*hatched, *(["↓ lower is better."] if low else [])]


def _selected(manifest: Manifest, kernel: str | None) -> str:
    many = "all kernels" if manifest.kernels != 1 else "its one kernel"
    return (
        f"kernel {kernel}" if kernel else f"{many}, {manifest.dispatches} dispatch{'es' * (manifest.dispatches != 1)}"
    )


def _time(manifest: Manifest, figures: list[engine.Figure]) -> compare.Time:
    found = next((f for f in figures if f.name == _TIME), None)
    if found is None or found.value is None:
        return compare.Time(manifest.name, None, manifest.dispatches)
    return compare.Time(manifest.name, found.value * found.n, found.n)
