"""import_profile: import a profile that was taken elsewhere into the store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ..analysis.base.notes import Note
from ..analysis.base.problems import BadArgument, BadInput, NotFound, near
from ..analysis.base.text import count_text
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.store.store import Manifest, Store
from .answers.next_calls import next_call
from .answers.sentences import sentence
from .base.arguments import checked_labels
from .base.parameters import FilePath, Reference
from .base.results import NextCall, Result, TextBlock
from .profiles.import_to_store import Beside, as_one_folder, import_to_store, matches
from .profiles.merging.merge import StoredProfile
from .running.program_revision import revision

_SIBLINGS, _FOLDERS = 2000, 2


class ImportResult(Result):
    """Summary of the imported workload."""

    workload: str
    name: str
    format: str
    arch: str | None
    device: str | None
    kernels: int | None
    """None if the profile contains only samples that do not name their kernels."""
    dispatches: int | None
    """Number of launches; None if the profile contains only samples."""
    counters: int
    passes: int
    passes_matched: int
    passes_unmatched: int
    events: int
    """Number of timeline events; 0 if the profile has no timeline."""
    samples: int
    warnings: list[str]

    def blocks(self) -> list[TextBlock]:
        """Return the passes if some do not match, and what was wrong with the files; the answer states the rest."""
        passes = count_text(self.passes, "pass", "passes")
        unmatched = f"{self.passes_unmatched} of {passes} with launches that have no counterpart"
        return [TextBlock("", [unmatched] if self.passes_unmatched else []), TextBlock("warnings", self.warnings)]


def import_profile(
    store: Store,
    path: FilePath,
    format: Reference = "auto",
    name: Reference | None = None,
    tags: list[Reference] | None = None,
    gpu: Reference | None = None,
    code: FilePath | None = None,
) -> ImportResult:
    """Read a profile or trace taken elsewhere (rocprof-compute, rocprofv3, ncu, nsys, PyTorch, perf) into the store."""
    gpu, sheet = targets.resolve_gpu(gpu) if gpu is not None else (None, {})
    name, tags = checked_labels(name, tags)

    def label(manifest: Manifest, stored: StoredProfile) -> tuple[Manifest, list[Note]]:
        # The location of the profile is unrelated to the repository of the profiled program.
        commit, branch = revision()
        about = {"arch": _target(manifest, gpu), "commit": commit, "branch": branch, "facts": sheet | manifest.facts}
        manifest = manifest.model_copy(update={**about, "tags": tags})
        return manifest.model_copy(update={"name": name or _apart(store, manifest, stored, source)}), []

    with as_one_folder(_existing(path, several=True)) as source:
        code_files = _existing(code) if code is not None else []
        done, merged = import_to_store(store, source, format, label, Beside(code=code_files))
    incomplete = sum(bool(p.unmatched_launches or p.matched < merged.dispatches) for p in merged.passes)
    return ImportResult(
        answer=_summary(done),
        **{name: getattr(done, name) for name in ("name", "format", "arch", "device", "events", "samples")},
        workload=done.id,
        kernels=done.kernel_count,
        dispatches=done.dispatch_count,
        counters=len(done.counters),
        passes=len(merged.passes),
        passes_matched=len(merged.passes) - incomplete,
        passes_unmatched=incomplete,
        warnings=[w.text for w in merged.warnings],
        notes=[*_same_content(store, done), *(n.text for n in merged.notes), *_hints(done)],
        next=_next(done, has_code=store.file(done, "instructions") is not None),
    )


def _same_content(store: Store, done: Manifest) -> Iterator[str]:
    """A note if the store has a workload whose tables equal those of the new one in kind and size."""

    def content(one: Manifest) -> list[object]:
        tables = {name: size for name, size in one.files.items() if name.endswith(".parquet")}
        names = ("format", "arch", "device", "command", "dispatches", "events", "samples")
        return [tables, *(getattr(one, name) for name in names)]

    twins = [one for one in store.scan()[0] if one.id != done.id and content(one) == content(done)]
    for newest in twins[-1:]:
        yield f"This profile seems to be in the store already, as {newest.name} ({newest.id})."


def _summary(done: Manifest) -> str:
    """Say what was imported."""
    counts = {
        "launch": done.dispatch_count,
        "kernel": done.kernel_count,
        "counter": len(done.counters),
        "event": done.events,
        "sample": done.samples,
    }
    contents = ", ".join(count_text(number, one) for one, number in counts.items() if number) or "no launches"
    device = done.device or done.arch or "an unknown device"
    return sentence("import.host" if _is_of_host(done) else "import.done", of=done, contents=contents, device=device)


def _is_of_host(done: Manifest) -> bool:
    return not done.dispatches and not done.events and "host_samples.parquet" in done.files


def _apart(store: Store, manifest: Manifest, merged: StoredProfile, source: Path) -> str:
    """Return the name that the profile states, with its folder appended if another profile already uses that name.

    Importing the same profile again keeps the name, which then refers to the newer workload.
    """
    stated, folder = manifest.name, "/".join(source.parts[-_FOLDERS:])
    own = (manifest.arch, manifest.command, merged.dispatches, len(merged.counters))
    others = {(m.arch, m.command, m.dispatches, len(m.counters)) for m in store.scan()[0] if m.name == stated}
    return f"{stated} ({folder})" if others - {own} and not f"/{folder}".endswith(f"/{stated}") else stated


def _existing(path: str, *, several: bool = False) -> list[Path]:
    """Return the resolved path, or with ``several`` all paths that match it as a pattern (``rank_*``).

    Raises NotFound, with similar names as suggestions, if nothing matches.
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
    raise NotFound(f"{path} does not exist", near(source.name, beside), "Give the profiler's folder or file")


def _target(manifest: Manifest, gpu: str | None) -> str | None:
    """Return the target that the profile states, else the caller's; BadArgument if they contradict each other."""
    if gpu is None or gpu == manifest.arch:
        return manifest.arch
    if manifest.arch or manifest.vendor != targets.gpu(gpu).vendor:
        stated = manifest.arch or f"a GPU of {manifest.vendor}"
        raise BadArgument(f"gpu={gpu!r} contradicts the profile", f"it was taken on {stated}", "Omit gpu")
    return gpu


def _hints(done: Manifest) -> list[str]:
    """Return hints on how to interpret this workload; none of them reports a fault."""
    target, launched = targets.find_target(done.arch), done.dispatches
    applies = {
        "imported.no_gpu": done.arch is None and done.counters,
        "imported.one_by_one": done.counters and done.vendor != "cpu",
        "imported.same_registers": launched and target and target.agprs == "separate",
        "imported.static_lds": launched and done.vendor == "amd" and done.format != "rocprofv3",
    }
    fitting = [name for name in targets.targets() if targets.gpu(name).vendor == done.vendor]
    return [sentence(code, fitting=fitting, arch=done.arch) for code, applying in applies.items() if applying]


def _next(done: Manifest, *, has_code: bool) -> list[NextCall]:
    about = {"workload": done.id}
    overview = next_call("compute_metrics", "the figures that show where the time goes", **about, metrics=["overview"])
    kernels = next_call("list_workloads", "its kernels by time", **about)
    first = next_call("find_hotspots", "the lines and instructions that cost the time", **about)
    if _is_of_host(done):
        return [next_call("find_hotspots", "the lines of the host's code", **about, by="host_line")]
    if done.events and (done.counters or not has_code):
        why = "where the wall time goes, and whether the GPU is the limit"
        first = next_call("compute_timeline", why, **about)
    elif has_code and done.counters:
        return [overview, first]
    elif not has_code:
        return [overview, kernels] if done.arch in catalog.targets_with_metrics() and done.counters else [kernels]
    return [first, kernels] if done.dispatches else [first]
