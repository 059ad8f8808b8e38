"""import_profile: read a profile that was taken elsewhere into the store."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..analysis.base.problems import BadArgument, BadInput, NotFound, near
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.store.store import Manifest, Store
from .base.arguments import checked_labels
from .base.parameters import FilePath, Reference, Tags
from .base.results import NextCall, Result
from .profiles.import_to_store import as_one_folder, import_to_store, matches
from .profiles.merging.merge import MergedProfile
from .running.program_revision import revision

_SIBLINGS, _FOLDERS = 2000, 2


class ImportResult(Result):
    """What was imported."""

    workload: str
    name: str
    format: str
    arch: str | None
    device: str | None
    kernels: int | None
    """None where samples are all there is, and they do not name their kernels."""
    dispatches: int | None
    """Launches; None where samples are all there is."""
    counters: int
    passes: int
    passes_matched: int
    passes_unmatched: int
    events: int
    """Of the timeline, where the profile is one."""
    samples: int
    warnings: list[str]


def import_profile(
    store: Store,
    path: Annotated[FilePath, Field(description="folder or file that the profiler wrote; rank_* for several")],
    format: Annotated[Reference, Field(description="auto, or as an error lists them")] = "auto",
    name: Annotated[Reference | None, Field(description="default: as the profile is called")] = None,
    tags: Tags | None = None,
    gpu: Annotated[Reference | None, Field(description="target (gfx90a) or product, if the profile lacks it")] = None,
    code: Annotated[FilePath | None, Field(description="AMD program or code object of PC samples")] = None,
) -> ImportResult:
    """Read a profile or trace taken elsewhere (rocprof-compute, rocprofv3, ncu, nsys, PyTorch, perf) into the store."""
    gpu = targets.resolve_gpu(gpu)[0] if gpu is not None else None
    name, tags = checked_labels(name, tags)

    def label(manifest: Manifest, merged: MergedProfile) -> None:
        manifest.arch = _target(manifest, gpu)
        manifest.name, manifest.tags = name or _apart(store, manifest, merged, source), tags
        # Where the profile lies says nothing of the sources that were profiled.
        manifest.commit, manifest.branch = revision()

    with as_one_folder(_existing(path, several=True)) as source:
        code_files = _existing(code) if code is not None else []
        done, merged = import_to_store(store, source, format, label, code=code_files)
    incomplete = sum(1 for p in merged.passes if p.unmatched_launches or p.matched < merged.dispatches)
    return ImportResult(
        workload=done.id,
        name=done.name,
        format=done.format,
        arch=done.arch,
        device=done.device,
        kernels=done.kernel_count,
        dispatches=done.dispatch_count,
        counters=len(done.counters),
        passes=len(merged.passes),
        passes_matched=len(merged.passes) - incomplete,
        passes_unmatched=incomplete,
        events=done.events,
        samples=done.samples,
        warnings=[w.text for w in merged.warnings],
        notes=[*(n.text for n in merged.notes), *_hints(done)],
        next=_next(done, has_code=store.file(done, "instructions") is not None),
    )


def _apart(store: Store, manifest: Manifest, merged: MergedProfile, source: Path) -> str:
    """The name that a profile states, with its folder where the store has another profile of that name.

    The same profile imported again keeps its name, which then means the newer one.
    """
    stated, folder = manifest.name, "/".join(source.parts[-_FOLDERS:])
    own = (manifest.arch, manifest.command, merged.dispatches, len(merged.counters))
    others = {(m.arch, m.command, m.dispatches, len(m.counters)) for m in store.scan()[0] if m.name == stated}
    return f"{stated} ({folder})" if others - {own} and not f"/{folder}".endswith(f"/{stated}") else stated


def _existing(path: str, *, several: bool = False) -> list[Path]:
    """The path with links followed, or with ``several`` what it names as a pattern (``rank_*``).

    NotFound, with near names beside it, where there is none.
    """
    try:
        source = Path(path).expanduser()
        if source.exists():
            return [source.resolve()]
        if several and (matching := matches(source)):
            return matching
        beside = [p.name for p in islice(source.parent.iterdir(), _SIBLINGS)] if source.parent.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{path[:200]} cannot be read", getattr(error, "strerror", None) or str(error)) from error
    raise NotFound(f"{path} does not exist", near(source.name, beside), "Give the folder or file of the profiler")


def _target(manifest: Manifest, gpu: str | None) -> str | None:
    """The target that the profile states, else the caller's; BadArgument where they contradict each other."""
    if gpu is None or gpu == manifest.arch:
        return manifest.arch
    if manifest.arch or manifest.vendor != targets.gpu(gpu).vendor:
        stated = manifest.arch or f"a GPU of {manifest.vendor}"
        raise BadArgument(f"gpu={gpu!r} contradicts the profile", f"it was taken on {stated}", "Leave gpu out")
    return gpu


def _hints(done: Manifest) -> list[str]:
    """How to read this workload; nothing of it is a fault."""
    hints = []
    if done.arch is None and done.counters:
        fitting = [t for t in targets.targets() if targets.gpu(t).vendor == done.vendor]
        hints.append(
            f"The profile does not state its GPU: for metrics import it with gpu= one of {', '.join(fitting)}."
        )
    if done.counters and done.vendor != "cpu":
        hints.append("Collecting counters runs one kernel at a time: overlap of kernels is not in the durations.")
    target = targets.find_target(done.arch)
    if target and target.agprs == "separate" and done.dispatches:
        hints.append(
            f"On {done.arch} profilers report agpr equal to vgpr; the accumulation registers are not additional."
        )
    if done.dispatches and done.vendor == "amd" and done.format != "rocprofv3":
        hints.append("lds_bytes of profiler CSV files is static LDS only; dynamic LDS is not in it.")
    return hints


def _next(done: Manifest, *, has_code: bool) -> list[NextCall]:
    overview = NextCall(
        tool="compute_metrics",
        arguments={"workload": done.id, "metrics": ["overview"]},
        why="the figures that show where the time goes",
    )
    kernels = NextCall(tool="list_workloads", arguments={"workload": done.id}, why="its kernels by time")
    lines = NextCall(
        tool="find_hotspots", arguments={"workload": done.id}, why="the lines and instructions that cost the time"
    )
    if has_code and not done.counters:
        return [lines, kernels] if done.dispatches else [lines]
    if done.events:
        where = NextCall(
            tool="compute_timeline",
            arguments={"workload": done.id},
            why="where the wall time goes: is the GPU the limit",
        )
        return [where, kernels] if done.dispatches else [where]
    if has_code:
        return [overview, lines]
    return [overview, kernels] if done.arch in catalog.targets_with_metrics() and done.counters else [kernels]
