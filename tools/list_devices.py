"""The tool list_devices: the GPUs and profilers of this machine, their permissions, and the known ceilings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pydantic

from ..analysis.base.database import open_own_database, sql_path
from ..analysis.base.problems import StoreProblem, join_sentences
from ..analysis.catalogue import metrics as catalog
from ..analysis.store import measured_ceilings as peaks
from ..analysis.store.store import Manifest, Store
from .answers.next_calls import next_call
from .answers.sentences import optional_sentence, sentence
from .base.results import NextCall, Result
from .device.machine.host_settings import unsound
from .device.machine.model import Device, InstalledProfiler, Roots
from .device.machine.survey import Machine, survey
from .running.known_failures import defects_here

if TYPE_CHECKING:
    import duckdb

_DEVICES = 12
"""Maximum devices shown: enough for a node with eight GPUs, but not for cards split into 64 partitions."""
_CEILING_WORKLOADS = 20
_MASKS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES")


class KnownCeilings(pydantic.BaseModel):
    """Measured ceilings in the store for one device: from run_peak_benchmarks, or imported with a workload."""

    gpu: str | None
    device: str | None = None
    device_uuid: str | None = None
    measured_at: str | None = None
    workload: str | None = None
    count: int


class DevicesResult(Result):
    """What this machine has. Unknown values are null, never 0."""

    devices: list[Device]
    total_devices: int
    profilers: list[InstalledProfiler]
    ceilings_known: list[KnownCeilings]


def list_devices(store: Store) -> DevicesResult:
    """List the GPUs and profilers of this machine, whether counters are permitted (if not: why, and the fix), and the
    measured ceilings."""
    return answer(store, survey(Roots()))


def answer(store: Store, machine: Machine) -> DevicesResult:
    """Return the tool's result for a machine, with notes, the store's ceilings and the next calls."""
    notes = [*machine.notes, *filter(None, _notes(machine))]
    try:
        manifests, _ = store.scan()
    except StoreProblem as problem:
        manifests = []
        notes.append(problem.text)
    ceilings = _ceilings(store, manifests)
    if rest := machine.devices[_DEVICES:]:
        kinds = ", ".join(sorted({f"{d.vendor} {d.arch}" for d in rest}))
        notes.append(sentence("machine.more", count=len(rest), kinds=kinds))
    return DevicesResult(
        answer=_summary(machine),
        devices=machine.devices[:_DEVICES],
        total_devices=len(machine.devices),
        profilers=machine.profilers,
        ceilings_known=ceilings,
        notes=notes,
        next=[*_next(machine, ceilings, bool(manifests))],
    )


def _summary(machine: Machine) -> str:
    """Say which GPUs are here, and which profiler can count on them."""
    vendors = {gpu.vendor for gpu in machine.gpus} or {"cpu"}
    fitting = [p for p in machine.profilers if p.vendor in vendors and p.path]
    profiler = sentence("devices.no_profiler")
    for one in sorted(fitting, key=lambda p: p.usable is False)[:1]:
        code = "devices.not_usable" if one.usable is False else "devices.profiler"
        version = f"{one.version} " if one.version else ""
        profiler = sentence(code, of=one, version=version, why=one.why or "see below")
    names = Counter(gpu.name or gpu.arch or gpu.vendor for gpu in machine.gpus)
    gpus = [f"{n} x {name}" for name, n in names.items()]
    return sentence("devices.gpus" if gpus else "devices.no_gpu", gpus=gpus, profiler=profiler)


def _notes(machine: Machine) -> Iterator[str]:
    yield optional_sentence("machine.battery", on=machine.on_battery)
    yield optional_sentence("machine.no_gpu", none=not machine.gpus)
    # An installed profiler itself reports what the machine does not permit.
    told = {p.vendor for p in machine.profilers if p.path}
    yield from [
        join_sentences(verdict.why, verdict.fix or "")
        for vendor, verdict in machine.verdicts.items()
        if verdict.usable is False and verdict.why and vendor not in {*told, "cpu"}
    ]
    yield from unsound(machine.settings, ("counters", "times"))
    defects: dict[str, list[str]] = {}
    for profiler, defect in defects_here(machine):
        state = sentence("machine.mended" if defect.mended else "machine.not_mended", defect=defect)
        defects.setdefault(f"{profiler.name} {profiler.version}", []).append(state)
    yield from [sentence("machine.defects", name=name, defects=of) for name, of in defects.items()]
    unknown = sorted({d.arch for d in machine.gpus if d.arch and not d.supported})
    yield from filter(None, map(catalog.without_metrics, unknown))
    masks = [name for name in _MASKS if name in os.environ]
    yield optional_sentence("machine.masked", masks=masks, gpus=machine.gpus)


def _next(machine: Machine, ceilings: list[KnownCeilings], imported: bool) -> Iterator[NextCall]:
    ready = {p.vendor for p in machine.profilers if p.usable is not False}
    for gpu in {d.arch: d for d in machine.gpus if d.supported}.values():
        if gpu.vendor in ready and gpu.arch not in {known.gpu for known in ceilings}:
            yield next_call("run_peak_benchmarks", "no ceilings are known for this GPU", mode="quick")
        elsewhere = "the commands to profile where counters are permitted"
        why = "which counters in how many runs" if gpu.vendor in ready else elsewhere
        yield next_call("plan_profile", why, gpu=gpu.arch, metrics=["overview"])
    if imported:
        yield next_call("list_workloads", "the stored profiles")


def _ceilings(store: Store, manifests: list[Manifest]) -> list[KnownCeilings]:
    """Return the results of run_peak_benchmarks, then the row counts of the newest ceilings tables."""
    files = {m.id: (m, path) for m in reversed(manifests) if (path := store.file(m, "ceilings"))}
    if not files and not peaks.files(store):
        return []
    import duckdb

    con = open_own_database()
    known = _benchmarked_devices(con, store)
    for manifest, path in list(files.values())[:_CEILING_WORKLOADS]:
        try:
            [(rows,)] = con.execute(f"SELECT num_rows FROM parquet_file_metadata({sql_path(path)})").fetchall()
        except duckdb.Error:
            # doctor reports damaged tables; the devices are listed anyway.
            continue
        if rows:
            known.append(KnownCeilings(gpu=manifest.arch or manifest.device, workload=manifest.id, count=rows))
    con.close()
    return known


def _benchmarked_devices(con: duckdb.DuckDBPyConnection, store: Store) -> list[KnownCeilings]:
    """Return one entry per device and partition, newest first."""
    devices: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in peaks.latest(con, store):
        if row["status"] in peaks.USABLE and row["intensity"] is None:
            devices.setdefault((row["device_uuid"], row["partition"]), {}).setdefault(row["ceiling"], row)
    return [KnownCeilings(**next(iter(rows.values())), count=len(rows)) for rows in devices.values()]
