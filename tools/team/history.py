"""A kernel over commits: its time in every workload that has it, and where it really changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...analysis.comparison.time import ENOUGH, SAMPLES, Effect, Part, Shape, alike, effect, whole
from ...analysis.database import apart, sql_literal
from ...analysis.patterns import matching
from ...analysis.problems import NotFound, near
from ...analysis.schema import relation
from ...analysis.scratch import scratch
from ...analysis.store import Manifest, Store
from ..progress import report

if TYPE_CHECKING:
    import duckdb

_READ = ("workload", "dispatch_id", "kernel", "configuration", "grid", "workgroup_size", "duration_ns")


@dataclass(frozen=True)
class Entry:
    """One kernel in one workload. ``change`` compares it with the level before it, of the same device: the first
    entry, then each that differed from the level beyond the noise; None for the first of a device."""

    manifest: Manifest
    kernel: str
    launches: int
    median_ns: float
    level: Manifest | None
    change: Effect | None

    @property
    def verdict(self) -> str:
        return "first" if self.change is None else self.change.verdict


def history(store: Store, pattern: str, manifests: Sequence[Manifest], most: int) -> list[Entry]:
    """The newest ``most`` workloads of each kernel that ``pattern`` fits (a name, or RE2 searched in names).

    Oldest first. Times are compared as compare_workloads does, the work is not: medians by launch configuration,
    bootstrap interval, noise floor. Raises NotFound, with near names, where no launch of such a kernel has a time.
    """
    by_id = {m.id: m for m in manifests}
    entries: list[Entry] = []
    with _dispatches(store, manifests) as con:
        names = [str(name) for (name,) in con.execute("SELECT DISTINCT kernel FROM d ORDER BY 1").fetchall()]
        wanted = [pattern] if pattern in names else matching(pattern, names)
        if not wanted:
            what = f"No timed kernel matches {pattern!r}"
            raise NotFound(what, near(pattern, names), "The pattern is a regular expression")
        for kernel in wanted:
            entries += _followed(kernel, _times(con, kernel), _medians(con, kernel), by_id, most)
    return sorted(entries, key=lambda e: (e.manifest.created_ns, e.manifest.id, e.kernel))


def _followed(
    kernel: str,
    times: dict[str, dict[Shape, Part]],
    medians: dict[str, float],
    by_id: dict[str, Manifest],
    most: int,
) -> Iterator[Entry]:
    """One kernel through its workloads, each against the level of its device."""
    levels: dict[tuple[str | None, str | None], str] = {}
    order = sorted(times, key=lambda id: (by_id[id].created_ns, id))[-most:]
    for number, id in enumerate(order, 1):
        report(f"{kernel}: {number} of {len(order)} workloads")
        manifest, parts = by_id[id], times[id]
        device = (manifest.arch, manifest.device)
        part = whole(parts)
        change, reference = None, by_id.get(levels.get(device, ""))
        if reference is not None:
            before, after = alike(times[reference.id], parts)
            change = effect(before, after, (_launches(before), _launches(after)))
        yield Entry(manifest, kernel, part.launches, medians[id], reference, change)
        if change is None or change.verdict != "inconclusive":
            levels[device] = id


def _launches(parts: Sequence[Part]) -> int:
    return sum(part.launches for part in parts)


@contextmanager
def _dispatches(store: Store, manifests: Sequence[Manifest]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the timed launches of workloads as the table d."""
    with scratch() as folder, closing(apart()) as con:
        rows = relation(store, manifests, "dispatches", _READ, folder)
        if rows is None:
            raise NotFound("No workload has launches", fix="Profile or import one with kernels")
        con.execute(f"CREATE TABLE d AS FROM ({rows}) WHERE duration_ns > 0")
        yield con


def _medians(con: duckdb.DuckDBPyConnection, kernel: str) -> dict[str, float]:
    """Workload -> the median over all launches of a kernel; in the samples, rare shapes weigh too much."""
    sql = f"SELECT workload, median(duration_ns) FROM d WHERE kernel = {sql_literal(kernel)} GROUP BY workload"
    return {str(workload): float(middle) for workload, middle in con.execute(sql).fetchall()}


def _times(con: duckdb.DuckDBPyConnection, kernel: str) -> dict[str, dict[Shape, Part]]:
    """Workload -> the launches of a kernel by configuration, of which evenly spread samples are taken."""
    shape = "workload, configuration, grid, workgroup_size"
    rows = con.execute(
        f"WITH r AS (SELECT *, row_number() OVER (PARTITION BY {shape} ORDER BY dispatch_id) AS i, "
        f"count(*) OVER (PARTITION BY {shape}) AS launches, count(*) OVER (PARTITION BY workload) AS n "
        f"FROM d WHERE kernel = {sql_literal(kernel)}), "
        f"w AS (SELECT *, least(launches, greatest({ENOUGH}, ceil({SAMPLES} * launches / n))) AS wanted FROM r) "
        f"SELECT {shape}, launches, list(duration_ns::DOUBLE ORDER BY dispatch_id) FROM w "
        "WHERE floor(i * wanted / launches) > floor((i - 1) * wanted / launches) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found: dict[str, dict[Shape, Part]] = {}
    for workload, configuration, grid, size, launches, times in rows:
        found.setdefault(str(workload), {})[Shape(configuration, grid, size)] = Part(tuple(times), int(launches))
    return found
