"""import_profile: read a profile that was taken elsewhere into the store."""

from __future__ import annotations

from pathlib import Path

from ..analysis.problems import NotFound
from ..analysis.store import Store
from .collectors.registry import reader_for
from .results import Result


class ImportResult(Result):
    """What was imported."""

    workload: str
    name: str
    format: str
    arch: str | None
    device: str | None
    kernels: int
    dispatches: int
    counters: int
    passes: int
    passes_matched: int
    passes_unmatched: int
    warnings: list[str] = []


def import_profile(store: Store, path: str, format: str = "auto", name: str | None = None, tags: list[str] | None = None) -> ImportResult:
    source = Path(path).expanduser()
    if not source.exists():
        raise NotFound(f"{path} does not exist", fix="Give the folder or file that the profiler wrote")
    reader = reader_for(source, format)
    import duckdb

    with store.draft() as folder:
        con = duckdb.connect(config={"temp_directory": str(folder / "spill")})
        con.execute("SET memory_limit='1200MB'; SET threads=2; SET preserve_insertion_order=true")
        manifest, merged = reader.read(con, source, folder)
        con.close()
        manifest.tags = tags or []
        if name:
            manifest.name = name
        manifest.dispatches, manifest.kernels = merged.dispatches, merged.kernels
        manifest.counters, manifest.warnings = merged.counters, merged.warnings
        done = store.publish(folder, manifest)
    incomplete = sum(1 for p in merged.passes if p.unmatched or p.matched < merged.dispatches)
    return ImportResult(workload=done.id, name=done.name, format=done.format, arch=done.arch, device=done.device,
                        kernels=done.kernels, dispatches=done.dispatches, counters=len(done.counters),
                        passes=len(merged.passes), passes_matched=len(merged.passes) - incomplete,
                        passes_unmatched=incomplete, warnings=merged.warnings)
