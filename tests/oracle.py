"""Compare the engine with rocprof-compute 3.3.0's recorded values; run as a script to see every difference.

python tests/oracle.py [--panel 17 --panel 18] [--case mixbench__MI200] [--limit 40]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rooflens.analysis import engine
from rooflens.analysis.store import Manifest, Store
from rooflens.tools.import_profile import import_profile

SHARED = Path(__file__).resolve().parents[2] / "shared"
NUMBERS = {
    "Avg": "value", "Average": "value", "Value": "value", "Mean": "value", "Min": "min", "Max": "max", "Q1": "q1",
    "Median": "median", "Q3": "q3", "Std Dev": "std", "Peak": "peak", "Pct of Peak": "pct_of_peak",
}  # fmt: skip
TEXTS = ("Type", "Transaction", "Xfer", "Coherency")


@dataclass(frozen=True)
class Difference:
    """One cell of the oracle that the engine does not reproduce."""

    case: str
    arch: str
    metric: str
    id: str
    field: str
    norm: str
    theirs: str
    ours: str
    reason: str | None


def cases() -> list[dict[str, str]]:
    """The rows of the oracle's index."""
    with (SHARED / "oracle" / "INDEX.csv").open() as file:
        return list(csv.DictReader(file))


def workload(store: Store, case: dict[str, str]) -> Manifest:
    """The case's workload, imported once per store."""
    name = f"{case['workload']}__{case['model']}"
    known = {m.name: m for m in store.scan()[0]}
    if name not in known:
        import_profile(store, str(SHARED / "workloads" / case["workload"] / case["model"]), name=name)
        known = {m.name: m for m in store.scan()[0]}
    return known[name]


def rows(case: dict[str, str]) -> Iterator[dict[str, str]]:
    """The oracle's cells of metrics (ids that start with a digit)."""
    with gzip.open(SHARED / "oracle" / case["file"], "rt") as file:
        yield from (r for r in csv.DictReader(file) if r["metric_id"][0].isdigit())


def compare(store: Store, case: dict[str, str], panels: set[str] | None = None) -> tuple[int, list[Difference]]:
    """The number of cells compared and those that differ, for one case in all its normalisations."""
    manifest = workload(store, case)
    wanted = [r for r in rows(case) if panels is None or r["metric_id"].split(".")[0] in panels]
    norms = sorted({r["norm_unit"] for r in wanted})
    figures = {norm: _figures(store, manifest, case, norm, panels) for norm in norms}
    different, count = [], 0
    for row in wanted:
        if row["field"] in ("Unit", "Tips"):
            continue
        count += 1
        column = None if row["field"] in NUMBERS or row["field"] in TEXTS else row["field"]
        figure = figures[row["norm_unit"]].get((row["metric_id"], column))
        ours = _cell(figure, row["field"])
        if not agree(row["value"], ours):
            different.append(
                Difference(
                    case["file"],
                    case["gfx"],
                    row["metric"],
                    row["metric_id"],
                    row["field"],
                    row["norm_unit"],
                    row["value"],
                    ours,
                    str(figure.reason or "") if figure else "no such metric",
                )
            )
    return count, different


def agree(theirs: str, ours: str) -> bool:
    """Equal emptiness, equal text, numbers within 1e-9 relative."""
    if theirs == "" or ours == "":
        return theirs == ours
    try:
        a, b = float(theirs), float(ours)
    except ValueError:
        return theirs == ours
    return a == b or (math.isfinite(a) and abs(a - b) <= 1e-9 * max(abs(a), abs(b)))


def _figures(
    store: Store, manifest: Manifest, case: dict[str, str], norm: str, panels: set[str] | None
) -> dict[tuple[str, str | None], engine.Figure]:
    """Figures by id, and by the oracle's column where a channel's row holds several quantities."""
    kernel, dispatches = None, None
    option, *numbers = case["peer_filter"].split() or [""]
    if option == "-k":
        kernel = ",".join(f"#{int(n) + 1}" for n in numbers)
    if option == "-d":
        dispatches = [_dispatch_of_row(store, manifest, int(n)) for n in numbers]
    found = engine.evaluate(
        store, manifest, sorted(panels) if panels else ["*"], kernel=kernel, dispatches=dispatches,
        normalization=norm, aggregation="mean",  # type: ignore[arg-type]
    )  # fmt: skip
    return {(f.id, f.metric.labels.get("Column")): f for f in found}


def _dispatch_of_row(store: Store, manifest: Manifest, row: int) -> int:
    import duckdb

    ids = duckdb.sql(f"SELECT dispatch_id FROM read_parquet('{store.file(manifest, 'dispatches')}')").fetchall()
    return int(ids[row][0])


def _cell(figure: engine.Figure | None, field: str) -> str:
    if figure is None:
        return ""
    value = figure.metric.labels.get(field) if field in TEXTS else getattr(figure, NUMBERS.get(field, "value"))
    return "" if value is None else str(value)


def main() -> int:
    """Print the differences, grouped by metric; the exit status is 1 when there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panel", action="append")
    parser.add_argument("--case", action="append", help="substring of the oracle file's name")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--store", default=str(Path(tempfile.gettempdir()) / "rooflens-oracle-store"))
    options = parser.parse_args()
    store, total, found = Store(options.store), 0, []
    for case in cases():
        if options.case and not any(c in case["file"] for c in options.case):
            continue
        count, different = compare(store, case, set(options.panel) if options.panel else None)
        total += count
        found += different
    groups: Counter[tuple[str, str, str, str]] = Counter((d.arch, d.id, d.metric, d.field) for d in found)
    example = {(d.arch, d.id, d.metric, d.field): d for d in reversed(found)}
    for key, n in sorted(groups.items())[: options.limit]:
        d = example[key]
        cells = f"theirs {d.theirs or 'empty'} ours {d.ours or 'empty'}"
        print(f"{n:5d} {' '.join(key)}: {cells} [{d.case} {d.norm}] {d.reason or ''}")
    print(f"{total} cells compared, {len(found)} differ in {len(groups)} metric fields")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
