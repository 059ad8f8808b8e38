"""Operations of frameworks with measured changes: how they are recorded, and what is said of those that an H200 ran."""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

import pytest

from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.engine.evaluation import FigureRequest, figures
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.eval.tests.conftest import EVAL
from rooflens.tests.support.recordings import stored

sys.path.insert(0, str(EVAL))
from frameworks import merge, truths
from interventions import diagnoses, scoring

TRUTHS = {t.kernel: t for t in truths.truths()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("frameworks"))
    stored(store, truths.COUNTERS, truths.HALF)
    return store


@pytest.fixture(scope="module")
def found(store: Store) -> dict[str, Diagnosis]:
    return {d.kernel: d for d in diagnose(Workload.open(store, truths.HALF))[0]}


def test_a_gain_is_of_the_time_for_the_work_of_the_operation(tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    times.write_text(
        "kernel,what,keeps_work,time_us,work\na,base,1,10,1\na,batched,0,20,8\na,in_order,1,5,1\nb,base,1,3,1\n"
    )
    (told,) = truths.truths(times)
    assert {(m.what, m.gain, m.fix) for m in told.measured} == {("batched", 4.0, False), ("in_order", 2.0, True)}


def test_every_change_of_the_recording_is_explained() -> None:
    assert {m.what for t in TRUTHS.values() for m in t.measured} <= set(scoring._table())


def test_the_longest_launch_of_a_range_stands_for_it(tmp_path: Path) -> None:
    ranges = "thread Domain:Push/Pop_Range:PL_Type"
    rows = [
        ["ID", "Process ID", "Process Name", "Host Name", ranges, "Kernel Name", merge.TIME],
        ["", "", "", "", "", "", "ns"],
        ["0", "7", "python3", "node", '7 "<default domain>:sort:none"', "histogram", "1,000"],
        ["1", "7", "python3", "node", '7 "<default domain>:sort:none"', "scatter", "3,000"],
        ["2", "7", "python3", "node", "", "beside", "9,000"],
    ]
    page = tmp_path / "page.csv"
    with page.open("w", newline="") as text:
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    merge.main(page, tmp_path / "out.csv.gz", tmp_path / "kernels.csv")
    with gzip.open(tmp_path / "out.csv.gz", "rt") as text:
        names, _, *launches = list(csv.reader(text))
    assert [dict(zip(names, row, strict=True))["Kernel Name"] for row in launches] == ["sort"]
    assert "node" not in str(launches)
    assert (tmp_path / "kernels.csv").read_text().splitlines()[1:] == ["sort,2,75.0,scatter"]


def test_what_limits_operations_of_frameworks_is_what_changes_show(found: dict[str, Diagnosis]) -> None:
    pairs = [(t, diagnoses.said(found[t.kernel])) for t in TRUTHS.values()]
    reached = scoring.scores(pairs)
    assert reached["kernels"] >= 45 and reached["where_something_helps"] >= 40
    assert reached["matters_pct"] >= 93 and reached["best_of_everything_pct"] >= 90
    assert reached["wrong_and_sure"] == 0 and reached["bounds_below_a_fix"] == 0


def test_updates_all_over_memory_are_not_taken_for_updates_of_few_addresses(found: dict[str, Diagnosis]) -> None:
    """In the order of their targets the first are 2.7 times as fast; the second are 22 times as fast when spread."""
    spread, few = found["add_into_many"], found["add_into_few"]
    assert (spread.verdict.subsystem, few.verdict.subsystem) == ("hbm", "atomics")
    assert any("Order the updates" in a.do for a in spread.findings[0].advice)


def test_work_groups_that_are_too_many_and_too_short_are_called_so(found: dict[str, Diagnosis]) -> None:
    """Half of the bytes take as long, a quarter of the work-groups for the same bytes 1.14 times less."""
    one = found["gather_rows"]
    assert one.verdict.subsystem == "dispatch" and one.verdict.confidence < scoring.SURE
    assert "as many as the device can start" in one.findings[0].claim
    assert all("can start" not in f.claim for k, d in found.items() if k != "gather_rows" for f in d.findings), (
        "no other"
    )


def test_a_few_atomics_beside_bulk_copies_are_not_the_limit_of_attention(found: dict[str, Diagnosis]) -> None:
    assert all(f.subsystem != "atomics" for f in found["attention"].findings)


def test_shared_memory_that_was_counted_twice_is_unknown_and_says_why(store: Store) -> None:
    """By operation it is 112 % of the cycles; the counter of all operations, which says 94 %, was not recorded."""
    view = FigureRequest(by_kernel=True, quartiles=False)
    told = {f.kernel: f for f in figures(Workload.open(store, truths.HALF), ["lds.utilization_pct"], view)}
    twice, once = told["product_bf16"], told["triton_large_tiles"]
    assert (twice.value, twice.status) == (None, "not_supported")
    assert twice.reason is not None and "count twice" in twice.reason.text
    assert once.value is not None and 50 < once.value < 65
