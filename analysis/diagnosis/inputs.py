"""The figures that the diagnosis rules read, per kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import catalog, engine, rules
from ..engine import Figure
from ..problems import BadInput
from ..scope import facts_of
from ..selection import choose
from ..status import NOTHING_THERE
from ..store import Manifest, Store, sql_path

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Subject:
    """One kernel: its share of the workload's time in percent (None without times), its figures and the inputs.

    ``values`` has every name that expressions may use, None where unknown: metrics, pct_of_peak.<metric>, fact.<name>.
    """

    rank: int
    kernel: str
    share_pct: float | None
    launches: int
    figures: dict[str, Figure]
    values: dict[str, float | None]


def subjects(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, kernel: str | None, limit: int | None
) -> tuple[list[Subject], int]:
    """The kernels asked for, longest total time first, at most ``limit``, and how many there are.

    Raises BadInput for a device without rules or a profile without counters.
    """
    target = manifest.arch or ""
    if target not in catalog.with_metrics() or not rules.rules(target):
        raise BadInput(
            f"No diagnosis rules are known for workload {manifest.name!r}",
            f"its target is {manifest.arch or 'not stated in the profile'}",
            "compute_metrics and query_counters show what was measured",
        )
    if not manifest.counters:
        raise BadInput(
            f"Workload {manifest.name!r} has no counters",
            "times and launch sizes alone do not tell what limits a kernel",
            "plan_profile names the counters to collect; list_workloads shows the kernels by time",
        )
    chosen = choose(con, store, manifest, kernel, None)
    wanted = chosen.kernels[:limit]
    shares = _shares(con, store, manifest)
    picked = None if len(wanted) == len(chosen.kernels) else ",".join(f"#{shares[k][0]}" for k in wanted)
    names = rules.all_metrics(target)
    figures: dict[str, dict[str, Figure]] = {}
    for figure in engine.evaluate(store, manifest, names, kernel=picked or kernel, by_kernel=True, quartiles=False):
        figures.setdefault(figure.kernel or "", {})[figure.name] = figure
    facts: dict[str, float | None] = {f"{rules.FACT}{name}": value for name, value in facts_of(manifest).items()}
    found = []
    for name in wanted:
        rank, share, launches = shares[name]
        own = figures.get(name, {})
        found.append(Subject(rank, name, share, launches, own, facts | _values(own)))
    return found, len(chosen.kernels)


def _values(figures: dict[str, Figure]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, figure in figures.items():
        found[name] = _usable(figure)
        if figure.metric.peak:
            found[rules.PEAK + name] = figure.pct_of_peak if figure.status in ("ok", "suspect") else None
    return found


def _usable(figure: Figure) -> float | None:
    """The figure where it can be trusted; a ratio with nothing to relate to counts as its best: nothing is wrong."""
    if figure.value is None and (figure.reason or "").startswith(NOTHING_THERE):
        if figure.metric.better == "lower":
            return 0.0
        return 100.0 if figure.metric.better == "higher" and figure.unit == "%" else None
    return figure.value if figure.status in ("ok", "suspect") else None


def _shares(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest
) -> dict[str, tuple[int, float | None, int]]:
    """Kernel -> its rank by time, its share of all time in percent, and its launches."""
    path = store.file(manifest, "dispatches")
    if path is None:
        raise BadInput(f"Workload {manifest.name!r} has no dispatches", fix="Import the profile again")
    rows = con.execute(
        "SELECT kernel, 100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0), count(*) "
        f"FROM read_parquet({sql_path(path)}) GROUP BY kernel "
        "ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
    ).fetchall()
    return {kernel: (rank, share, n) for rank, (kernel, share, n) in enumerate(rows, 1)}
