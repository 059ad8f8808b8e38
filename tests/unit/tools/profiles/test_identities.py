"""Counters that cannot be beside one another make figures suspect and verdicts unsure; recordings keep to them."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from rooflens.analysis.catalogue import metrics, rules
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.recordings import stored
from rooflens.tools.import_profile import import_profile

SURE = 0.7
"""What profiles state of their device."""


def imported(store: Store, path: Path) -> tuple[Manifest, Diagnosis]:
    import_profile(store, str(path), name="changed")
    manifest = store.resolve("changed")
    (one,), _ = diagnose(Workload(store, manifest))
    return manifest, one


def vector_copy(shared: Path, folder: Path, counter: str, factor: float, longer: float = 1.0) -> Path:
    """One launch of the vector copy on an MI200 with a counter, or the time, multiplied."""
    shutil.copytree(shared / "workloads" / "vcopy" / "MI200", folder, ignore=shutil.ignore_patterns("SQ_*", "roof*"))
    with (folder / "pmc_perf.csv").open(newline="") as text:
        launch = next(csv.DictReader(text))
    if counter:
        launch[counter] = str(float(launch[counter]) * factor)
    start, end = int(launch["Start_Timestamp"]), int(launch["End_Timestamp"])
    launch["End_Timestamp"] = str(start + int(longer * (end - start)))
    with (folder / "pmc_perf.csv").open("w", newline="") as text:
        out = csv.DictWriter(text, [name for name in launch if "[" not in name], extrasaction="ignore")
        out.writeheader()
        out.writerow(launch)
    return folder


@pytest.mark.parametrize(("counter", "factor"), [("SQ_THREAD_CYCLES_VALU", 0.0), ("TCC_EA_RDREQ_sum", 0.0)])
def test_a_counter_that_contradicts_another_makes_no_sure_verdict(
    counter: str, factor: float, shared: Path, tmp_path: Path
) -> None:
    manifest, one = imported(Store(tmp_path / "store"), vector_copy(shared, tmp_path / "w", counter, factor))
    assert [w.text for w in manifest.warnings if w.code == "identity" and counter in w.text]
    assert one.verdict.confidence < SURE


def test_a_limit_that_only_a_doubted_figure_rules_out_leaves_a_wait_unsure(shared: Path, tmp_path: Path) -> None:
    """No read of a streaming kernel was counted: the verdict would wait in the vector L1 with 0.82."""
    folder = tmp_path / "w"
    folder.mkdir()
    shutil.copy(shared / "workloads" / "mixbench" / "MI200" / "sysinfo.csv", folder)
    with (shared / "workloads" / "mixbench" / "MI200" / "pmc_perf.csv").open(newline="") as text:
        launch = next(row for row in csv.DictReader(text) if "func<int, 256, 8u, 0u>" in row["Kernel_Name"])
    with (folder / "pmc_perf.csv").open("w", newline="") as text:
        out = csv.DictWriter(text, [name for name in launch if "[" not in name], extrasaction="ignore")
        out.writeheader()
        out.writerow(launch | {"TCC_EA_RDREQ_sum": "0"})
    _, one = imported(Store(tmp_path / "store"), folder)
    assert one.verdict.subsystem != "hbm" and one.verdict.confidence < SURE
    assert "hbm is ruled out by doubted figures" in str(one.verdict.doubt)


def test_a_time_that_means_a_clock_of_a_few_megahertz_is_doubted(shared: Path, tmp_path: Path) -> None:
    manifest, one = imported(Store(tmp_path / "store"), vector_copy(shared, tmp_path / "w", "", 1.0, longer=64))
    assert [w.code for w in manifest.warnings if w.code == "standstill"]
    assert one.verdict.confidence < SURE and "clock at which no GPU runs" in str(one.verdict.doubt)


@pytest.mark.parametrize("counter", ["sm__cycles_active.avg", "launch__waves_per_multiprocessor"])
def test_the_same_of_nvidia(counter: str, shared: Path, tmp_path: Path) -> None:
    with (shared / "ncu" / "h200_labelled_raw.csv").open(newline="") as text:
        whole = list(csv.reader(text))
    read = {c for m in rules.all_metrics("sm_90") for c in metrics.counters("sm_90", metrics.by_name("sm_90")[m])}
    keep = [i for i, name in enumerate(whole[0]) if i < 11 or name in read or name.startswith(("device__", "launch__"))]
    head, units, *launches = ([row[i] for i in keep] for row in whole)
    chase = next(row for row in launches if row[head.index("Kernel Name")].startswith("latency_chase"))
    place = head.index(counter)
    chase[place] = str(float(chase[place].replace(",", "")) * (64 if counter.startswith("launch") else 1 / 64))
    path = tmp_path / "page.csv"
    with path.open("w", newline="") as text:
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([head, units, chase])
    manifest, one = imported(Store(tmp_path / "store"), path)
    assert [w for w in manifest.warnings if w.code == "identity" and counter in w.text]
    assert one.verdict.confidence < SURE


def test_many_contradictions_are_told_in_few_sentences_and_doubted_one_by_one(shared: Path, tmp_path: Path) -> None:
    """The counters of this profile were made, so that most of what holds on hardware does not hold in it."""
    store = Store(tmp_path)
    found = stored(store, shared / "workloads" / "synth_a" / "MI300X_A1", "made")
    told = [warning.text for warning in found.warnings if warning.code == "identity"]
    assert len(told) == 4 and "more pairs of counters" in told[-1]
    doubted = [d for d in Workload.open(store, "made").doubts.known if d.code == "identity"]
    assert len(doubted) > 10
