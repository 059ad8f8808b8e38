"""What counting really took on a device with a version of a profiler, kept in the store for the next plan.

One small file for each device, profiler and version, replaced whole. Nothing but estimates rests on it: a lost, damaged
or overwritten file costs a less exact estimate.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pydantic

from ...analysis.planning.sampling import Cost
from ...analysis.store.store import Store, write_atomically
from ..base.profile_files import HOTSPOTS_STEP
from ..profiles.merging.merge import MergedProfile
from .drivers import registry
from .request import ProfileRequest
from .run_state import ProfileRun, RunState

FOLDER = "costs"
_KEPT = 9
"""Runs of which the measured costs are kept, the newest last."""
_MOST_BYTES = 1 << 16
_LEAST_S = 1.0
"""Time counting that a measurement needs, to be told from the noise of a program's start."""
_FEWEST = 5
"""Launches that it needs."""
_ABSURD = 1000.0


class _MeasuredCost(pydantic.BaseModel):
    """One run: how many times the built-in estimate its counting took."""

    factor: float = pydantic.Field(gt=1 / _ABSURD, lt=_ABSURD, allow_inf_nan=False)


class _CostFile(pydantic.BaseModel):
    """The content of a file."""

    profiler: str = pydantic.Field(max_length=100)
    version: str | None = pydantic.Field(default=None, max_length=100)
    runs: list[_MeasuredCost] = pydantic.Field(default=[], max_length=1000)


def corrected_estimate(store: Store, run: ProfileRun, estimate: Cost) -> Cost:
    """The estimate as runs on the same device with the same profiler have corrected it; itself where there are none."""
    factors = [one.factor for one in _read(_path(store, run)).runs]
    if not factors:
        return estimate
    factor = statistics.median(factors)
    runs = f"{len(factors)} run{'s' * (len(factors) > 1)}"
    known_by = f"measured on this device in {runs}"
    if _by_launch(run):
        return replace(estimate, launch_s=estimate.launch_s * factor, known_by=known_by)
    return Cost(estimate.run_s * factor, estimate.launch_s * factor, known_by)


def learn(store: Store, run: ProfileRun, state: RunState, merged: MergedProfile) -> float | None:
    """Keep what the counting of a run took; how many times the built-in estimate that was, None where nothing is told.

    A store that cannot be written to is left as it is.
    """
    factor = _factor(run, state, merged)
    if factor is None or not 1 / _ABSURD < factor < _ABSURD:
        return None
    path = _path(store, run)
    runs = [*_read(path).runs, _MeasuredCost(factor=factor)][-_KEPT:]
    content = _CostFile(profiler=run.profiler[:100], version=(run.profiler_version or "")[:100] or None, runs=runs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.model_dump_json(indent=1))
    except OSError:
        return None
    return factor


def _factor(run: ProfileRun, state: RunState, merged: MergedProfile) -> float | None:
    """Seconds that the counting steps took by those that are built in; of replayed launches, without the program."""
    driver = registry.sampler(run.profiler)
    alone_s = state.took_s.get("timing")
    counting = {name: rows for name, rows in _counted_passes(merged) if name in state.took_s and name != HOTSPOTS_STEP}
    if driver is None or alone_s is None or "timing" in state.cut or not counting:
        return None
    asked = {**run.counters, **state.counters}
    passes = tuple(tuple(asked.get(name, ())) for name in counting)
    estimate = driver.cost(ProfileRequest((), passes, replay=driver.REPLAY), alone_s)
    spent_s, launches = sum(state.took_s[name] for name in counting), sum(counting.values())
    if _by_launch(run):
        spent_s -= estimate.run_s
        return spent_s / (estimate.launch_s * launches) if spent_s >= _LEAST_S and launches >= _FEWEST else None
    return spent_s / estimate.estimate_s(launches) if spent_s >= _LEAST_S else None


def _counted_passes(merged: MergedProfile) -> Iterator[tuple[str, int]]:
    """Every pass with counters, and its launches."""
    return ((one.name, one.table.rows) for one in merged.passes if one.name != "timing")


def _by_launch(run: ProfileRun) -> bool:
    """Whether counting costs time for each launch, as replays do, and not for each run of the program."""
    driver = registry.sampler(run.profiler)
    return driver is not None and driver.REPLAY == run.replay == "kernel"


def _path(store: Store, run: ProfileRun) -> Path:
    key = [run.profiler, run.profiler_version or "", run.replay, run.device_uuid or f"{run.target} {run.host}"]
    return store.root / FOLDER / f"{hashlib.sha256(chr(0).join(key).encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> _CostFile:
    try:
        with path.open("rb") as file:
            return _CostFile.model_validate_json(file.read(_MOST_BYTES))
    except (OSError, pydantic.ValidationError):
        return _CostFile(profiler="")
