"""The history of a kernel over commits: its time and work in every workload that contains it, and real changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ...analysis.base.database import open_own_database, sql_literal
from ...analysis.base.kernel_names import matching, near_kernels
from ...analysis.base.problems import NotFound
from ...analysis.base.temporary_files import scratch
from ...analysis.base.text import count_text
from ...analysis.comparison import work
from ...analysis.comparison.time_ratio import (
    ENOUGH,
    SAMPLES,
    Effect,
    KernelTotals,
    LaunchShape,
    ShapeTimes,
    TimeVerdict,
    comparable_parts,
    effect,
)
from ...analysis.comparison.work import DIFFERENT, Quantity, SameWork, Side, judge
from ...analysis.store.schema import relation
from ...analysis.store.store import Manifest, Store
from ...analysis.workload import Workload
from ..base.progress import report

if TYPE_CHECKING:
    import duckdb

    from ...analysis.engine.work_sums import KernelWork

ChangeVerdict = Literal["first", "other_work"] | TimeVerdict
_READ = ("workload", "dispatch_id", "kernel", "configuration", "grid", "workgroup_size", "duration_ns")


@dataclass(frozen=True)
class HistoryEntry:
    """One kernel in one workload. ``change`` and ``work`` compare it with the reference level on the same device: its
    first entry, then each entry that differed from the level. They are None for the first entry of a device."""

    manifest: Manifest
    kernel: str
    launches: int
    median_ns: float
    level: Manifest | None = None
    change: Effect | None = None
    work: SameWork | None = None

    @property
    def verdict(self) -> ChangeVerdict:
        """Return the verdict: less time for different work is neither better nor worse."""
        if self.change is None:
            return "first"
        return "other_work" if self.work and self.work.answer in DIFFERENT else self.change.verdict

    @property
    def amount(self) -> Quantity | None:
        """Return the most informative work quantity of a launch, here and at the level; None if nothing was counted."""
        told = self.work.units() or self.work.evidence if self.work else []
        return next((quantity for quantity in told if quantity.ratio is not None), None)


def history(store: Store, pattern: str, manifests: Sequence[Manifest], most: int) -> list[HistoryEntry]:
    """Return the newest ``most`` workloads of each kernel that matches ``pattern`` (a name, or an RE2 search pattern).

    Oldest first. Times and work of a launch are compared as in compare_workloads: medians by launch configuration,
    bootstrap interval, noise floor, and counters in both profiles. Raises NotFound with similar names if no launch of
    a matching kernel has a time.
    """
    by_id = {m.id: m for m in manifests}
    entries: list[HistoryEntry] = []
    with _dispatches(store, manifests) as con:
        names = [str(name) for (name,) in con.execute("SELECT DISTINCT kernel FROM d ORDER BY 1").fetchall()]
        kernels = [pattern] if pattern in names else matching(pattern, names)
        if not kernels:
            what = f"No timed kernel matches {pattern!r}"
            raise NotFound(what, near_kernels(pattern, names), "The pattern is a regular expression")
        with _KernelWorkReader(store, kernels) as work_reader:
            for kernel in kernels:
                times = _times(con, kernel)
                order = sorted(times, key=lambda id: (by_id[id].created_ns, id))[-most:]
                timed = [_TimedKernel(by_id[id], kernel, times[id]) for id in order]
                store.prepare([one.manifest for one in timed if one.manifest.counters and len(timed) > 1])
                entries += _follow_kernel(timed, _medians(con, kernel), work_reader)
    return sorted(entries, key=lambda e: (e.manifest.created_ns, e.manifest.id, e.kernel))


@dataclass(frozen=True)
class _TimedKernel:
    """A kernel in one workload: its launches by configuration."""

    manifest: Manifest
    kernel: str
    parts: dict[LaunchShape, ShapeTimes]

    @property
    def launches(self) -> int:
        return _launches(list(self.parts.values()))


def _follow_kernel(
    timed: Sequence[_TimedKernel], medians: dict[str, float], work_reader: _KernelWorkReader
) -> Iterator[HistoryEntry]:
    """Follow one kernel through its workloads and compare each with the level of its device."""
    levels: dict[tuple[str | None, str | None], _TimedKernel] = {}
    for number, one in enumerate(timed, 1):
        manifest = one.manifest
        report(f"{one.kernel}: {number} of {count_text(len(timed), 'workload')}")
        device = (manifest.arch, manifest.device)
        entry = HistoryEntry(manifest, one.kernel, one.launches, medians[manifest.id])
        if level := levels.get(device):
            before, after = comparable_parts(level.parts, one.parts)
            change = effect(before, after, (_launches(before), _launches(after)))
            entry = replace(entry, level=level.manifest, change=change, work=work_reader.compare_work(level, one))
        yield entry
        if entry.verdict != "inconclusive":
            levels[device] = one


class _KernelWorkReader:
    """Reads the work of kernels in workloads, each workload once; a context manager."""

    def __init__(self, store: Store, kernels: Sequence[str]) -> None:
        self._store, self._kernels, self._opened = store, kernels, ExitStack()
        self._workloads: dict[str, Workload] = {}
        self._read: dict[tuple[str, frozenset[tuple[str, str]]], dict[str, KernelWork]] = {}

    def __enter__(self) -> _KernelWorkReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def compare_work(self, before: _TimedKernel, after: _TimedKernel) -> SameWork:
        """Compare the work of a launch by the counters in both profiles, or else by its size."""
        if not (before.manifest.counters and after.manifest.counters):
            return SameWork("unknown", "the profiles have no work counter in common", _sizes(before, after))
        workloads = [self._workload(one.manifest) for one in (before, after)]
        formulas = work.expressions(workloads)
        sides = [self._side(w, one, formulas) for w, one in zip(workloads, (before, after), strict=True)]
        return judge(workloads[0].arch, sides[0], sides[1])

    def _workload(self, manifest: Manifest) -> Workload:
        if manifest.id not in self._workloads:
            self._workloads[manifest.id] = self._opened.enter_context(Workload.open(self._store, manifest))
        return self._workloads[manifest.id]

    def _side(self, workload: Workload, one: _TimedKernel, formulas: dict[str, str]) -> Side:
        key = (workload.id, frozenset(formulas.items()))
        if key not in self._read:
            groups = work.collect_work(workload, self._kernels, formulas).groups
            self._read[key] = {done.kernel: done for done in groups}
        launched = KernelTotals(one.kernel, one.launches, one.launches, 0.0)
        return Side((launched,), (self._read[key].get(one.kernel),), one.launches)


def _sizes(before: _TimedKernel, after: _TimedKernel) -> list[Quantity]:
    """Return the average work-items of a launch, if both profiles contain them."""
    means = []
    for one in (before, after):
        sizes = [(shape.grid, part.launches) for shape, part in one.parts.items() if shape.grid]
        if len(sizes) == len(one.parts):
            means.append(sum(size * n for size, n in sizes) / one.launches)
    return [Quantity("threads", "launch", *means)] if len(means) == 2 else []


def _launches(parts: Sequence[ShapeTimes]) -> int:
    return sum(part.launches for part in parts)


@contextmanager
def _dispatches(store: Store, manifests: Sequence[Manifest]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database with the timed launches of workloads as the table d."""
    with scratch() as folder, closing(open_own_database()) as con:
        rows = relation(store, manifests, "dispatches", _READ, folder)
        if rows is None:
            raise NotFound("No workload has launches", fix="Profile or import a workload with kernels")
        con.execute(f"CREATE TABLE d AS FROM ({rows}) WHERE duration_ns > 0")
        yield con


def _medians(con: duckdb.DuckDBPyConnection, kernel: str) -> dict[str, float]:
    """Return the median over all launches of a kernel by workload, because samples overweight rare configurations."""
    sql = f"SELECT workload, median(duration_ns) FROM d WHERE kernel = {sql_literal(kernel)} GROUP BY workload"
    return {str(workload): float(middle) for workload, middle in con.execute(sql).fetchall()}


def _times(con: duckdb.DuckDBPyConnection, kernel: str) -> dict[str, dict[LaunchShape, ShapeTimes]]:
    """Return the launches of a kernel by workload and configuration, as evenly spread samples."""
    shape = "workload, configuration, grid, workgroup_size"
    rows = con.execute(
        f"WITH r AS (SELECT *, row_number() OVER (PARTITION BY {shape} ORDER BY dispatch_id) AS i, "
        f"count(*) OVER (PARTITION BY {shape}) AS launches, count(*) OVER (PARTITION BY workload) AS n "
        f"FROM d WHERE kernel = {sql_literal(kernel)}), "
        f"w AS (SELECT *, least(launches, greatest({ENOUGH}, ceil({SAMPLES} * launches / n))) AS wanted FROM r) "
        f"SELECT {shape}, launches, list(duration_ns::DOUBLE ORDER BY dispatch_id) FROM w "
        "WHERE floor(i * wanted / launches) > floor((i - 1) * wanted / launches) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    parts: dict[str, dict[LaunchShape, ShapeTimes]] = {}
    for workload, configuration, grid, size, launches, times in rows:
        parts.setdefault(str(workload), {})[LaunchShape(configuration, grid, size)] = ShapeTimes(
            tuple(times), int(launches)
        )
    return parts
