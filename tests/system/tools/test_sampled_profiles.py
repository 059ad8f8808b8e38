"""Sampled profiles: recorded launches of which only some were counted, against the same with all of them counted."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.launches import coverage
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import DATA
from rooflens.tools.base.results import Table
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.profiles.merging.matching import SAMPLE, CountingSample
from rooflens.tools.query_counters import query_counters

RECORDED = DATA / "ncu" / "small_raw.csv.gz"
"""Five kernels on an H200, one launch each."""
TIMES, SKIP, COUNTED = 5, 1, 2
UNCOUNTED = "shared_conflict"
Page = tuple[list[str], list[str], list[list[str]]]


def recorded() -> Page:
    """Its launches, five times, in turn; the two products of a matrix and a vector as sizes of one kernel."""
    lines = [line for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines() if line.startswith('"')]
    head, units, *launches = csv.reader(lines)
    name, number = head.index("Kernel Name"), head.index("ID")
    rows = []
    for _ in range(TIMES):
        for launch in launches:
            row = list(launch)
            row[name] = row[name].replace("yax_problem", "yax").replace("yax_solution", "yax")
            row[number] = str(len(rows))
            rows.append(row)
    return head, units, rows


def write(file: Path, head: list[str], units: list[str], rows: Iterable[list[str]], places: Iterable[int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = list(places)
    with file.open("w", newline="") as handle:
        out = csv.writer(handle, quoting=csv.QUOTE_ALL)
        out.writerows([row[i] for i in kept] for row in (head, units, *rows))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The recording as ``whole``, and as ``sampled``: all times, and counters of two launches of each configuration."""
    folder = tmp_path_factory.mktemp("sampled")
    head, units, rows = recorded()
    write(folder / "whole.csv", head, units, rows, range(len(head)))
    timed = [
        i for i, h in enumerate(head) if i < 11 or "gpu__time_duration" in h or h.startswith(("launch__", "device"))
    ]
    write(folder / "sampled" / "timing" / "raw.csv", head, units, rows, timed)
    name, grid = head.index("Kernel Name"), head.index("Grid Size")
    turn: dict[tuple[str, str], int] = {}
    counted = []
    for row in rows:
        place = turn[key] = turn.get(key := (row[name], row[grid]), 0) + 1
        if SKIP < place <= SKIP + COUNTED and not row[name].startswith(UNCOUNTED):
            counted.append(row)
    write(folder / "sampled" / "pass_1" / "raw.csv", head, units, counted, range(len(head)))
    (folder / "sampled" / "pass_1" / SAMPLE).write_text(CountingSample(SKIP).text())
    made = Store(folder / "store")
    for path in ("whole.csv", "sampled"):
        import_profile(made, str(folder / path), name=path.removesuffix(".csv"))
    return made


def records(found: Table) -> list[dict[str, Any]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


@pytest.mark.parametrize(("by", "names"), [("kernel", ["vl1d", "lds", "occupancy", "hbm"]), ("launch", ["l2", "valu"])])
def test_figures_are_those_of_the_complete_profile(store: Store, by: Any, names: list[str]) -> None:
    values = []
    for name in ("whole", "sampled"):
        with Workload.open(store, name, by=by) as opened:
            found = figures(opened, names, FigureRequest(by_kernel=True, quartiles=False))
        values.append({(f.kernel, f.name): f for f in found if not (f.kernel or "").startswith(UNCOUNTED)})
    whole, sampled = values
    known = {key: f.value for key, f in whole.items() if f.value is not None}
    assert len(known) > 50
    assert {key: sampled[key].value for key in known} == pytest.approx(known, rel=1e-9)


def test_points_of_a_roofline_are_those_of_the_complete_profile(store: Store) -> None:
    found = [compute_roofline(store, name, detail="full", limit=9) for name in ("whole", "sampled")]
    points = [{(p["kernel"], p["level"]): p for p in records(one.points)} for one in found]
    assert any("Not counted: #1" in note for note in found[1].notes)
    compared = 0
    for key, whole in points[0].items():
        if key[0].startswith(UNCOUNTED):
            assert key not in points[1]
            continue
        sampled = points[1][key]
        for name in ("operations", "bytes", "time_ns", "intensity", "performance", "bandwidth"):
            compared += whole[name] is not None
            assert sampled[name] == (None if whole[name] is None else pytest.approx(whole[name], rel=1e-9)), (key, name)
        configurations = 2 if key[0].startswith("yax") else 1
        assert (whole["n"], sampled["n"]) == (TIMES * configurations, COUNTED * configurations)
    assert compared > 50


def test_a_kernel_that_was_not_counted_says_so_and_has_its_times(store: Store) -> None:
    found = compute_metrics(store, "sampled", ["hbm.bw_gbs", "dispatch.duration_ns"], by="kernel")
    rows = {r["name"]: r for r in records(found.table) if r["kernel"].startswith(UNCOUNTED)}
    assert (rows["hbm.bw_gbs"]["avg"], rows["hbm.bw_gbs"]["status"]) == (None, "not_collected")
    assert rows["hbm.bw_gbs"]["reason"] == "none of its launches was counted"
    assert rows["dispatch.duration_ns"]["n"] == TIMES
    number = next(r["rank"] for r in records(list_workloads(store, "sampled").table) if r["counted"] == 0)
    assert f"Not counted: #{number}; profile with kernel= to count them." in found.notes


def test_every_tool_says_once_what_the_counters_stand_for(store: Store) -> None:
    text = "8 of 25 launches were counted, of 4 of 5 launch configurations; they represent 80 % of the launches and"
    for tool, more in (
        (compute_metrics, {"metrics": ["hbm.bw_gbs"]}),
        (compute_roofline, {}),
        (diagnose_bottleneck, {}),
    ):
        assert sum(text in note for note in tool(store, "sampled", **more).notes) == 1, tool  # type: ignore[operator]
    assert not any("were counted" in note for note in compute_metrics(store, "whole", ["hbm.bw_gbs"]).notes)
    with Workload.open(store, "sampled") as opened:
        part = coverage.coverage(opened, opened.select("yax"))
    assert part is not None and (part.counted, part.launches, part.time_pct) == (4, 10, 100.0)


def test_evidence_in_sql_is_given_where_the_tables_have_such_a_row(store: Store) -> None:
    """The SQL table metrics is per kernel: it cannot give the figures of one of several configurations."""
    found = diagnose_bottleneck(store, "whole", by="launch", detail="full", top_n=9).kernels
    evidence = {d.kernel: [e for f in d.findings for e in f.evidence if e.value is not None] for d in found}
    assert sum(map(len, evidence.values())) > 5
    for kernel, given in evidence.items():
        assert all((e.sql is None) == kernel.startswith("yax") for e in given), kernel
    one = next(e for kernel, given in evidence.items() for e in given if e.sql)
    assert query_counters(store, str(one.sql)).table.rows[0][0] == pytest.approx(one.value)
