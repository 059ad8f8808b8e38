"""The tool run_peak_benchmarks: measure the performance that this device can reach."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..analysis.base.database import connect
from ..analysis.base.problems import NotFound, Problem
from ..analysis.store import measured_ceilings as peaks
from ..analysis.store.schema import iso
from ..analysis.store.store import Store
from .base.parameters import DeviceName, MetricNames
from .device.benchmarks import outcomes as peak_tables
from .device.benchmarks.outcomes import CeilingOutcome, Mode
from .device.machine.model import Device, Roots
from .device.machine.survey import Machine, survey
from .get_run import RunResult, run_result
from .running import start as launch
from .running.job import CallStep, Job
from .running.run_state import CANCEL, CANCELLED, BenchmarkRun
from .running.worker import CallProgress

if TYPE_CHECKING:
    from .device.benchmarks.runtime import OpenGpu


def measure(
    store: Store, tell: CallProgress, *, run_id: str, about: dict[str, Any], device: str, wanted: list[str], mode: Mode
) -> dict[str, Any]:
    """Measure ``wanted`` on ``device`` ("cpu", or a GPU as the benchmarks name it); ``about`` is stored with every row.

    In mode functional and after a cancellation nothing is stored. Failed and skipped ceilings are reported but not
    stored.
    """
    rows: list[dict[str, Any]] = []
    if device == "cpu":
        # Before NumPy is loaded, so that BLAS uses one thread in each of the measuring threads.
        os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Read before anything can bring the GPU down.
    versions = _versions(device, known=about["gpu"] is not None)

    def progress(name: str, number: int, total: int, outcome: CeilingOutcome | None) -> None:
        if outcome is not None:
            rows.append(row(outcome))
        tell(number / total, f"{name} ({min(number + 1, total)} of {total})", {"ceilings": rows})

    cancelled = (store.run_folder(run_id) / CANCEL).exists
    outcomes = _outcomes(device, wanted, mode, progress=progress, cancelled=cancelled)
    measured = [row(outcome) for outcome in outcomes]
    if cancelled():
        # The benchmarks may notice it before the supervisor does, and end by themselves.
        return {"ceilings": measured, "stored": 0, CANCELLED: True}
    kept = [r for r in measured if mode != "functional" and r["status"] not in ("failed", "skipped")]
    if kept:
        common = {
            **about,
            **versions,
            "run_id": run_id,
            "mode": mode,
            "host": os.uname().nodename,
            "measured_at": iso(time.time_ns()),
        }
        peaks.save(store, [{**common, **r, "compiler": r["compiler"] or common["compiler"]} for r in kept])
    return {"ceilings": measured, "stored": len(kept)}


def row(outcome: CeilingOutcome) -> dict[str, Any]:
    """Return an outcome as data. All points of a sweep share its name; unknown values are None."""
    values = asdict(outcome)
    if outcome.intensity is not None:
        values["ceiling"] = outcome.ceiling.removesuffix(f".{outcome.intensity:g}")
    values["checked"] = values.pop("check")
    return {name: None if value == "" or (name in _COUNTS and not value) else value for name, value in values.items()}


_COUNTS = ("grid", "workgroup_size", "work_per_launch", "n")


def _outcomes(device: str, wanted: list[str], mode: Mode, **calls: Any) -> Sequence[CeilingOutcome]:
    if device == "cpu":
        from .device.benchmarks import cpu

        return cpu.measure_ceilings(wanted, mode, **calls)
    from .device.benchmarks import gpu

    return gpu.measure_ceilings(device, wanted or None, mode, **calls)


def _versions(device: str, known: bool) -> dict[str, Any]:
    """Return what the kernels were made of and compiled by; for a device not ``known``, also its description."""
    if device == "cpu":
        from .device.benchmarks import cpu

        return {"compiler": cpu.compiler(), "kernel_version": cpu.version()}
    from .device.benchmarks import gpu as run
    from .device.benchmarks import specs as table

    gpu = run.describe(device)
    versions = {
        "compiler": run.made_by(gpu) or None,
        "kernel_version": table.version(),
        "compute_units": gpu.compute_units,
    }
    return versions if known else _facts(gpu) | versions


_FACTS = {
    "vendor": "vendor",
    "device_uuid": "uuid",
    "partition": "partition",
    "device": "name",
    "gpu": "arch",
    "driver": "driver",
    "compute_units": "compute_units",
}
"""What is stored with every value -> the attribute of a device."""


def _facts(device: Device | OpenGpu | None) -> dict[str, Any]:
    return {name: getattr(device, attribute, None) for name, attribute in _FACTS.items()}


_MEMORY, _BEST = "hbm.", "hbm.bw"
"""Prefix of the device-memory ceilings, and the best of them, which only a run of all of them determines."""
_RUNTIME = re.compile(r"(amd|nvidia)(?::(\d+))?")
"""A GPU as its runtime names it, which detection may not list: an emulated GPU has no driver."""


@dataclass(frozen=True)
class Target:
    """A device to measure: what is stored with every value, its name for the benchmarks, and its ceilings."""

    about: dict[str, Any]
    called: str
    names: tuple[str, ...]
    kernel_version: str
    lock: dict[str, str]
    seen: bool = True
    """Whether its description is known; a GPU that only its runtime lists is examined by the run itself."""


def choose(machine: Machine, device: str | int | None, wanted: Sequence[str] | None) -> tuple[Target, list[str]]:
    """Return the selected device with its ceilings, and notes; raise NotFound if there is no such device or ceiling."""
    notes = []
    if device is None and not machine.gpus:
        notes.append('No GPU is visible here, so these are ceilings of the host\'s processors, device="cpu".')
        device = "cpu"
    if str(device).lower() == "cpu":
        return _host(next(d for d in machine.devices if d.vendor == "cpu"), wanted), notes
    fitting = [d for d in machine.gpus if device is None or str(device) in _names(d)]
    if not fitting and (named := _RUNTIME.fullmatch(str(device).lower())):
        return _unseen(named[1], int(named[2] or 0), wanted), notes
    if not fitting:
        here = machine.gpu_names() or "no GPU"
        raise NotFound(f"There is no GPU {device!r}", f"this machine has {here}", 'Give an index, a uuid or "cpu"')
    if device is None and len(fitting) > 1:
        notes.append(f"GPU 0 of {len(fitting)} was selected; device= selects another.")
    return _gpu(fitting[0], wanted), notes


def _host(device: Device, wanted: Sequence[str] | None) -> Target:
    from .device.benchmarks import cpu

    identity = {"device_uuid": cpu.identity(), "partition": cpu.partition(), "compiler": cpu.compiler()}
    return Target(
        _facts(device) | identity | {"gpu": "cpu", "driver": None},
        "cpu",
        cpu.choose_ceilings(wanted),
        cpu.version(),
        {f"cpu-{device.uuid or device.index}": "the processor"},
    )


def _gpu(device: Device, wanted: Sequence[str] | None) -> Target:
    from .device.benchmarks import specs as table

    specs = table.choose_specs(device.arch or "", list(wanted) if wanted else None)
    names = together([spec.name for spec in specs], [spec.name for spec in table.ceilings(device.arch or "")])
    return Target(
        _facts(device) | {"device_uuid": device.uuid or f"{device.vendor}-{device.index}"},
        device.uuid if device.uuid and device.vendor == "nvidia" else f"{device.vendor}:{device.index}",
        (*names, _BEST) if any(name.startswith(_MEMORY) for name in names) else tuple(names),
        table.version(),
        {f"{device.vendor}-{device.uuid or device.index}": f"GPU {device.index} ({device.vendor} {device.arch})"},
    )


def _names(device: Device) -> tuple[str | None, ...]:
    number = f"{device.vendor}:{device.index}"
    return (device.uuid, str(device.index), number, *([device.vendor] if device.index == 0 else []))


def _unseen(vendor: str, index: int, wanted: Sequence[str] | None) -> Target:
    from .device.benchmarks import specs as table

    about = _facts(None) | {"vendor": vendor}
    lock = {f"{vendor}-{index}": f"GPU {index} ({vendor})"}
    return Target(about, f"{vendor}:{index}", tuple(wanted or ()), table.version(), lock, seen=False)


def together(wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return ``wanted`` in the order of ``known``, with all device-memory benchmarks if one of them is wanted."""
    memory = any(name.startswith(_MEMORY) for name in wanted)
    return [name for name in known if name in wanted or (memory and name.startswith(_MEMORY))]


FRESH = timedelta(days=90)
_TIMEOUTS_S = {"quick": 300.0, "full": 900.0, "functional": 7200.0}
_ENOUGH = {"full": ("full",), "quick": ("full", "quick")}
"""Modes whose stored results can answer a request for a mode."""


def run_peak_benchmarks(
    store: Store,
    device: DeviceName | None = None,
    ceilings: MetricNames | None = None,
    mode: Mode = "full",
    again: bool = False,
    wait_s: float = 45,
) -> RunResult:
    """Measure the ceilings of a GPU (or CPU) for compute_roofline. Valid stored results answer, unless again."""
    target, notes = choose(survey(Roots()), device, ceilings)
    rows = [] if again or mode == "functional" or not target.seen else fresh(store, target, mode)
    wanted = together(peak_tables.missing(rows, target.names), target.names)
    if rows and not wanted:
        return stored_results(rows, target, mode, notes)
    if 0 < len(wanted) < len(target.names):
        known = len(target.names) - len(wanted)
        notes.append(
            f"{known} other ceilings are already known and not measured again; the SQL table ceilings contains all."
        )
    run_id, folder = launch.new_run(store)
    run = BenchmarkRun(
        run_id=run_id,
        name=f"ceilings of {target.about['device'] or target.about['gpu'] or target.called}",
        timeout_s=_TIMEOUTS_S[mode],
        notes=notes,
        mode=mode,
        gpu=target.about["gpu"],
        device=target.about["device"],
    )
    step = CallStep.of(
        "benchmark", measure, run_id=run_id, about=target.about, device=target.called, wanted=wanted, mode=mode
    )
    try:
        launch.start(store, Job(run=run, steps=[step], devices=target.lock))
    except Problem:
        launch.discard(store, run_id)
        raise
    return run_result(store, folder, wait_s)


def fresh(store: Store, target: Target, mode: str) -> list[dict[str, Any]]:
    """Return the target's stored ceilings that are still valid: same device, partition, driver and kernels, not old.

    For a ceiling measured in several modes, the most thorough one counts.
    """
    with closing(connect()) as con:
        known = peaks.latest(con, store)
    since = (datetime.now(UTC) - FRESH).isoformat()
    same = ("device_uuid", "partition", "driver")
    holds = [
        row
        for row in known
        if all(row[name] == target.about[name] for name in same)
        and row["kernel_version"] == target.kernel_version
        and (target.about.get("compiler") in (None, row["compiler"]))
        and row["mode"] in _ENOUGH[mode]
        and row["measured_at"] > since
        and row["ceiling"] in target.names
    ]
    return sorted(peaks.fullest(holds), key=lambda r: (target.names.index(r["ceiling"]), r["intensity"] or 0.0))


def stored_results(rows: list[dict[str, Any]], target: Target, mode: str, notes: list[str]) -> RunResult:
    """Answer with the results of earlier runs, without a new run."""
    by_time = sorted(rows, key=lambda r: r["measured_at"])
    since = " to ".join(dict.fromkeys(by_time[place]["measured_at"] for place in (0, -1)))
    origin = f"Stored results of {since} on {target.about['device'] or target.about['gpu']}; again=true measures anew."
    return RunResult(
        run_id=by_time[-1]["run_id"],
        state="done",
        progress="answered from stored results",
        steps_done=1,
        steps=1,
        elapsed_s=0.0,
        ceilings=peak_tables.ceilings(rows),
        notes=[origin, *notes, *peak_tables.notes(rows, mode)],
        next=peak_tables.next_calls(),
    )
