"""The work of a benchmark run, in a worker: measures the ceilings of one device and puts them into the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from ..analysis import peaks
from ..analysis.store import Store
from .jobs.record import CANCEL
from .jobs.worker import Tell

if TYPE_CHECKING:
    from .bench.judge import Outcome

Mode = Literal["full", "quick", "functional"]


def measure(
    store: Store, tell: Tell, *, run_id: str, about: dict[str, Any], device: str, wanted: list[str], mode: Mode
) -> dict[str, Any]:
    """Measure ``wanted`` on ``device`` ("cpu", or as the benchmarks name GPUs); ``about`` is kept with every row.

    In mode functional nothing is stored. What failed or was skipped is told, not stored.
    """
    told: list[dict[str, Any]] = []
    # Before anything can bring the GPU down.
    versions = _versions(device, known=about["gpu"] is not None)

    def progress(name: str, number: int, total: int, outcome: Outcome | None) -> None:
        if outcome is not None:
            told.append(row(outcome))
        tell(number / total, f"{name} ({min(number + 1, total)} of {total})", {"ceilings": told})

    cancelled = (store.run_folder(run_id) / CANCEL).exists
    found = [row(outcome) for outcome in _outcomes(device, wanted, mode, progress, cancelled)]
    kept = [r for r in found if r["status"] not in ("failed", "skipped")]
    if mode != "functional" and kept:
        common = {
            **about, **versions, "run_id": run_id, "mode": mode, "host": os.uname().nodename,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        }  # fmt: skip
        peaks.save(store, [{**common, **r} for r in kept])
    return {"ceilings": found, "stored": len(kept) if mode != "functional" else 0}


def row(outcome: Outcome) -> dict[str, Any]:
    """An outcome as data. The points of a sweep share its name; what is not known is None."""
    values = asdict(outcome)
    if outcome.intensity is not None:
        values["ceiling"] = outcome.ceiling.removesuffix(f".{outcome.intensity:g}")
    values["checked"] = values.pop("check")
    return {name: None if value == "" or (name in _COUNTS and not value) else value for name, value in values.items()}


_COUNTS = ("grid", "workgroup_size", "work_per_launch", "n")


def _outcomes(
    device: str,
    wanted: list[str],
    mode: Mode,
    progress: Callable[[str, int, int, Outcome | None], None],
    cancelled: Callable[[], bool],
) -> Sequence[Outcome]:
    if device == "cpu":
        from .bench import host

        return host.run(wanted, mode, progress=progress, cancelled=cancelled)
    from .bench import run

    return run.run(device, wanted or None, mode, progress=progress, cancelled=cancelled)


def _versions(device: str, known: bool) -> dict[str, Any]:
    """What the kernels were made of and by; of a device not ``known`` also what it is."""
    if device == "cpu":
        from .bench import host

        return {"compiler": host.compiler(), "kernel_version": host.version()}
    from .bench import sources
    from .bench.device import describe

    found = describe(device)
    identity = {
        "device_uuid": found.uuid, "partition": found.partition, "device": found.name, "gpu": found.arch,
        "driver": found.driver,
    }  # fmt: skip
    return {
        **({} if known else identity),
        "compiler": ", ".join(word for word in (found.compiler, found.runtime) if word) or None,
        "kernel_version": sources.version(),
        "compute_units": found.compute_units,
    }
