"""RDNA 3.5 against recorded profiles of a Radeon 8050S: every figure of rocprof-compute 3.8 for it, at its default."""

from __future__ import annotations

import csv
import fnmatch
import gzip
import shutil
import tomllib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.figures import evaluate
from rooflens.tests.support.recordings import stored
from rooflens.tools.import_profile import import_profile

CASE = "vcopy__RDNA35_HALO"
COLUMNS = {
    "Avg": "value",
    "Value": "value",
    "Min": "over.min",
    "Max": "over.max",
    "Peak": "peak",
    "Percent of Peak": "pct_of_peak",
}
TIMES = ("Start_Timestamp", "End_Timestamp")
NONE = ("", "N/A")
DEVIATIONS = ROOT / "docs" / "reference" / "deviations_38.toml"
LISTED = [
    entry for entry in tomllib.loads(DEVIATIONS.read_text(encoding="utf-8"))["deviation"] if "gfx1151" in entry["gpus"]
]

Cell = tuple[dict[str, str], float | None, float | None]
"""A row of the oracle, its value in our unit, and ours."""


def recorded(shared: Path, case: str = CASE) -> Path:
    folder = shared / "workloads38" / case
    if not folder.exists():
        pytest.skip("needs ../shared/workloads38, which the project does not ship")
    return folder


def oracle(shared: Path, case: str = CASE) -> list[dict[str, str]]:
    with gzip.open(shared / "oracle38" / f"{case}.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def one_time(shared: Path, case: str, folder: Path) -> Path:
    """The profile with the times of one pass in all: that which rocprof-compute took, as its counts per second tell."""
    copy = folder / case
    shutil.copytree(recorded(shared, case), copy)
    tables = {path: list(csv.DictReader(path.read_text().splitlines())) for path in copy.glob("*pmc_perf*.csv")}
    passes: dict[str, dict[str, dict[str, str]]] = {}
    for row in (row for rows in tables.values() for row in rows if row.get("GUID")):
        passes.setdefault(row["GUID"], {})[row["Dispatch_ID"]] = {name: row[name] for name in TIMES}
    counts = {
        r["norm_unit"]: float(r["value"])
        for r in oracle(shared, case)
        if (r["metric_id"], r["field"]) == ("7.5.0", "Avg")
    }
    if "per_second" not in counts:
        return copy
    total = 3e9 * counts["per_kernel"] / counts["per_second"]
    (taken,) = [
        launches
        for launches in passes.values()
        if abs(sum(int(one[TIMES[1]]) - int(one[TIMES[0]]) for one in launches.values()) - total) < 0.5
    ]
    for path, rows in tables.items():
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | taken[row["Dispatch_ID"]] for row in rows)
    return copy


def cells(store: Store, case: str, rows: list[dict[str, str]]) -> Iterator[Cell]:
    norms = sorted({row["norm_unit"] for row in rows})
    figures = {
        norm: {f.id: f for f in evaluate(store, case, ["*"], normalization=norm)}  # type: ignore[arg-type]
        for norm in norms
    }
    for row in rows:
        if row["field"] not in COLUMNS or row["metric_id"] == "7.1.0":
            continue  # measured peaks that it has none of, and a metric that it states without a formula
        figure = figures[row["norm_unit"]][row["metric_id"]]
        theirs = None if row["value"] in NONE else float(row["value"])
        if theirs is not None and row["unit"] == "Bytes/s" and row["field"] != "Percent of Peak":
            theirs /= 1e9
        yield row, theirs, attrgetter(COLUMNS[row["field"]])(figure)


def equal(theirs: float | None, ours: float | None) -> bool:
    if theirs is None or ours is None:
        return theirs is ours
    return abs(theirs - ours) <= 1e-9 * max(abs(theirs), abs(ours))


def listed(row: dict[str, str]) -> int | None:
    for index, entry in enumerate(LISTED):
        if row["field"] in entry["fields"] and any(fnmatch.fnmatchcase(row["metric_id"], p) for p in entry["ids"]):
            return index
    return None


@pytest.mark.parametrize(("case", "count", "other"), [(CASE, 1784, 44), ("ipblocks_CU__RDNA35_HALO", 96, 0)])
def test_every_figure_of_rocprof_compute_is_reproduced_or_listed(
    case: str, count: int, other: int, shared: Path, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    import_profile(store, str(one_time(shared, case, tmp_path)), name=case)
    compared = list(cells(store, case, oracle(shared, case)))
    different = [(row, theirs, ours) for row, theirs, ours in compared if not equal(theirs, ours)]
    unlisted = [(r["metric_id"], r["field"], t, o) for r, t, o in different if listed(r) is None]
    assert unlisted == []
    assert (len(compared), len(different)) == (count, other)
    if case == CASE:
        assert {listed(row) for row, _, _ in different} == set(range(len(LISTED))), "entries that no longer differ"


def test_its_metrics_have_the_ids_of_rocprof_compute_and_three_of_ours(shared: Path) -> None:
    recorded(shared)
    theirs = {row["metric_id"] for row in oracle(shared)} - {"7.1.0"}
    ours = {m.id for m in catalog.metrics("gfx1151") if m.panel not in (19, 40)}
    assert ours - theirs == {"7.90.0", "7.90.1", "7.90.2"} and theirs <= ours


def test_the_other_targets_of_the_generation_have_the_same_metrics() -> None:
    names = {t: [m.name for m in catalog.metrics(t)] for t in ("gfx1150", "gfx1151", "gfx1152")}
    assert names["gfx1150"] == names["gfx1151"] == names["gfx1152"] and len(names["gfx1151"]) > 150
    assert catalog.metrics("gfx1030") == () and {m.name for m in catalog.metrics("gfx1100")} <= set(names["gfx1151"])


def test_a_dead_counter_is_told_when_the_profile_is_imported(shared: Path, tmp_path: Path) -> None:
    (told,) = [w for w in stored(Store(tmp_path), recorded(shared)).warnings if w.code == "dead_counter"]
    assert "TCP_REQ_sum" in told.text and "TCP_GL1_REQ_READ_sum" in told.text
