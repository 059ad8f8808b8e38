"""import_profile: read a profile that was taken elsewhere into the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..analysis import clocks
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import products, targets
from ..analysis.problems import BadArgument, BadInput, NotFound, near
from ..analysis.store import Manifest, Store
from .parameters import FilePath, Reference, Tags
from .profilers.matched import matches, together
from .profilers.registry import ranks_of, reader_for
from .profilers.tables.checks import faults, of_readers
from .profilers.tables.files import WORK, database, readable
from .profilers.tables.gather import gather
from .profilers.tables.hotspots import kernels_in
from .profilers.tables.lines import unlined
from .profilers.tables.merge import Merged
from .profilers.tables.names import plain_text
from .profilers.tables.rank_table import write_ranks
from .results import NextCall, Result
from .revision import revision

_NAME_LIMIT, TAG_LIMIT = 120, 32
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
    gpu = products.resolved(gpu)[0] if gpu is not None else None
    name, tags = checked_labels(name, tags)

    def labelled(manifest: Manifest, merged: Merged) -> None:
        manifest.arch = _target(manifest, gpu)
        manifest.name, manifest.tags = name or _apart(store, manifest, merged, source), tags
        # Where the profile lies says nothing of the sources that were profiled.
        manifest.commit, manifest.branch = revision()

    with together(_existing(path, several=True)) as source:
        code_files = _existing(code) if code is not None else []
        done, merged = imported(store, source, format, labelled, code=code_files)
    incomplete = sum(1 for p in merged.passes if p.unmatched or p.matched < merged.dispatches)
    return ImportResult(
        workload=done.id,
        name=done.name,
        format=done.format,
        arch=done.arch,
        device=done.device,
        kernels=done.kernels_told,
        dispatches=done.dispatches_told,
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


def imported(
    store: Store,
    source: Path,
    format: str,
    amend: Callable[[Manifest, Merged], None],
    samples: Sequence[Mapping[str, Any]] = (),
    code: Sequence[Path] = (),
) -> tuple[Manifest, Merged]:
    """Read the profile at ``source`` into a new workload.

    ``amend`` may correct what the reader found about the profile as a whole, before its figures are judged;
    ``samples`` of the device's sensors are kept beside them; ``code`` may hold the code of sampled kernels.
    """
    with readable(source):
        ranks = ranks_of(source, format)
        reader = ranks[0] if ranks else reader_for(source, format)
    with store.draft() as folder:
        work = folder / WORK
        work.mkdir()
        with readable(source), database(source, work) as con:
            if ranks:
                manifest, merged = gather(con, source, folder, ranks[1], partial(reader.read, code=code))
            else:
                manifest, merged = reader.read(con, source, folder, code)
            manifest.sampled = merged.sampled
            write_ranks(con, folder, manifest, merged)
            amend(manifest, merged)
            found = faults(con, folder, manifest, merged)
            manifest.doubts = [*of_readers(merged.warnings), *(doubt for one in found for doubt in one.doubts)]
            merged.warnings += [one.note for one in found]
            merged.warnings += unlined(con, folder, manifest, merged)
            clocks.save(con, folder, samples)
            merged.kernels = merged.kernels or kernels_in(con, folder)
        shutil.rmtree(work)
        manifest.name = plain_text(manifest.name, _NAME_LIMIT) or "profile"
        manifest.dispatches, manifest.kernels, manifest.events = merged.dispatches, merged.kernels, merged.events
        manifest.samples = merged.samples
        manifest.counters, manifest.warnings = merged.counters, merged.warnings
        return store.publish(folder, manifest), merged


def _apart(store: Store, manifest: Manifest, merged: Merged, source: Path) -> str:
    """The name that a profile states, with its folder where the store has another profile of that name.

    The same profile imported again keeps its name, which then means the newer one.
    """
    stated, folder = manifest.name, "/".join(source.parts[-_FOLDERS:])
    own = (manifest.arch, manifest.command, merged.dispatches, len(merged.counters))
    others = {(m.arch, m.command, m.dispatches, len(m.counters)) for m in store.scan()[0] if m.name == stated}
    return f"{stated} ({folder})" if others - {own} and not f"/{folder}".endswith(f"/{stated}") else stated


def checked_labels(name: str | None, tags: list[str] | None) -> tuple[str | None, list[str]]:
    """Name and tags as the caller gave them, without spaces around; BadArgument for one that cannot be used."""
    shown = _checked(name, "name") if name is not None else None
    return shown, [_checked(t, "tag") for t in (tags or [])[:TAG_LIMIT]]


def _existing(path: str, *, several: bool = False) -> list[Path]:
    """The path with links followed, or with ``several`` what it names as a pattern (``rank_*``).

    NotFound, with near names beside it, where there is none.
    """
    try:
        source = Path(path).expanduser()
        if source.exists():
            return [source.resolve()]
        if several and (found := matches(source)):
            return found
        beside = [p.name for p in islice(source.parent.iterdir(), _SIBLINGS)] if source.parent.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{path[:200]} cannot be read", getattr(error, "strerror", None) or str(error)) from error
    raise NotFound(f"{path} does not exist", near(source.name, beside), "Give the folder or file of the profiler")


def _checked(text: str, kind: str) -> str:
    """A name or tag given by the caller; BadArgument where it could not be shown or found again."""
    if not text.strip() or len(text) > _NAME_LIMIT or plain_text(text, _NAME_LIMIT) != text.strip():
        raise BadArgument(
            f"The {kind} {plain_text(text, 40)!r} cannot be used",
            f"it must be visible text of at most {_NAME_LIMIT} characters",
        )
    if text.strip() == "latest":
        raise BadArgument(f"The {kind} 'latest' cannot be used", "it stands for the newest workload")
    return text.strip()


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
    target = targets.described(done.arch)
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
    return [overview, kernels] if done.arch in catalog.with_metrics() and done.counters else [kernels]
