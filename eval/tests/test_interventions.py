"""Kernels with measured interventions: the same every time, right as source, and scored by what was measured."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.planning.plan import plan
from rooflens.analysis.store.store import Store
from rooflens.eval.tests.conftest import EVAL
from rooflens.tests import ROOT

sys.path.insert(0, str(EVAL))
from interventions import diagnoses, merge, record, score, scoring, suite
from interventions.scoring import Measured, Said, Truth

SOURCES = EVAL / "interventions"
KERNELS = ROOT / "examples" / "kernels"
HIP = ROOT / "tests" / "oracle" / "examples"


def truth(*measured: Measured, level: str = "hbm") -> Truth:
    return Truth("k", "tuning", "memory", level, 100.0, measured)


def said(subsystem: str, confidence: float = 0.9, **bounds: float) -> Said:
    return Said(subsystem, confidence, bounds)


def test_the_same_kernels_are_drawn_every_time_and_each_once(tmp_path: Path) -> None:
    suite.write(tmp_path / "a", 4)
    suite.write(tmp_path / "b", 4)
    first = [path.read_text() for path in sorted((tmp_path / "a").glob("*.cu"))]
    assert first == [path.read_text() for path in sorted((tmp_path / "b").glob("*.cu"))]
    bases = re.findall(r'\{"(s\dk\d+)", "base"', "".join(first))
    assert len(bases) == len(set(bases)) >= 300
    assert suite.suite("tuning") != suite.suite("held_out")


def test_every_intervention_changes_something_and_is_explained() -> None:
    stated = {what.split(".")[0] for what in scoring._table()}
    for half in suite.HALVES:
        for launch in suite.suite(half):
            base, *others = suite.variants(launch)
            assert base.launch == launch
            assert all(v.launch != launch for v in others), launch
            assert {v.what for v in others} <= stated


def test_fixes_keep_the_number_of_steps_of_all_threads() -> None:
    for half in suite.HALVES:
        for launch in suite.suite(half):
            for v in suite.variants(launch):
                if v.keeps_work and v.what not in ("more_in_flight", "wider_loads"):
                    assert steps(v.launch) == steps(launch), (launch, v.what)


def steps(one: suite.Launch) -> int:
    return one.grid * one.demand.threads * one.shape.rounds * one.shape.steps


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source file with a small kernel of many families."""
    small = {}
    for name, launch in zip(suite.names("tuning"), suite.suite("tuning"), strict=True):
        if launch.scaled and launch.shape.members == 1 and launch.grid % suite.UNITS == 0:
            small.setdefault(launch.family, (name, launch))
    file = tmp_path_factory.mktemp("interventions") / "few.cu"
    file.write_text(suite.source(list(small.values())[::5]))
    return file


def test_every_fix_counts_what_its_kernel_counts_on_an_emulated_device(few: Path) -> None:
    compiler = next((found for name in ("g++", "clang++", "clang++-22") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("needs a C++20 compiler (g++ or clang++)")
    words = ["-std=c++20", "-O1", "-w", "-x", "c++", "-D__HIP_PLATFORM_AMD__"]
    words += [f"-I{folder}" for folder in (SOURCES, KERNELS, HIP / "emulated_hip")]
    program = few.parent / "interventions"
    built = subprocess.run(
        [compiler, *words, str(few), str(SOURCES / "main.cu"), "-o", str(program)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program, "check"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("0 of ")


def test_the_source_compiles_for_the_mi300_without_warnings(few: Path) -> None:
    if shutil.which("clang++-22") is None:
        pytest.skip("needs clang-22 with the AMDGPU back end")
    words = ["-x", "hip", "--offload-arch=gfx942", "--cuda-device-only", "-S", "-std=c++20", "-O3", "-Wall", "-Wextra"]
    words += ["-Werror", f"-I{SOURCES}", f"-I{KERNELS}", "-o", str(few.parent / "few.s")]
    words = [str(HIP / "rocm_bin" / "hipcc"), *words, str(few)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_verdict_matters_beside_the_best_of_its_kind() -> None:
    t = truth(
        Measured("unit_stride", 6.0, True), Measured("more_in_flight", 3.0, True), Measured("no_loads", 20.0, False)
    )
    assert scoring.matters(t, "vl1d")
    assert not scoring.matters(t, "latency")  # three times as fast, where six times was to be had
    assert scoring.helped(t, "latency")
    assert not scoring.helped(t, "valu")


def test_a_removal_counts_for_the_levels_that_its_loads_reach() -> None:
    gone = Measured("no_loads", 5.0, False)
    assert scoring.matters(truth(gone), "hbm")
    assert not scoring.matters(truth(gone, level="l1"), "hbm")
    assert scoring.matters(truth(gone, level="l1"), "vl1d")


def test_only_sure_verdicts_that_nothing_supports_are_wrong_and_sure() -> None:
    t = truth(Measured("no_fma", 2.0, False))
    assert scoring.wrong_and_sure(t, said("hbm", 0.7))
    assert not scoring.wrong_and_sure(t, said("hbm", 0.69))
    assert not scoring.wrong_and_sure(t, said("valu", 0.95))
    assert scoring.wrong_and_sure(truth(Measured("no_fma", 1.1, False)), said("valu", 0.95))  # nothing helps


def test_bounds_are_held_against_fixes_of_their_subsystem_alone() -> None:
    t = truth(
        Measured("unit_stride", 3.0, True), Measured("sorted_lanes", 9.0, True), Measured("no_loads", 30.0, False)
    )
    assert scoring.bounded(t, said("vl1d", vl1d=2.0, valu=1.0)) == [("vl1d", "unit_stride", 2.0, 3.0)]
    found = scoring.scores([(t, said("vl1d", vl1d=2.0)), (t, said("vl1d", vl1d=6.0))])
    assert (found["bounds"], found["bounds_below_a_fix"], found["median_bound_over_gain"]) == (
        2,
        1,
        pytest.approx(4 / 3),
    )


def test_calibration_tells_how_often_verdicts_of_a_confidence_matter() -> None:
    t = truth(Measured("no_fma", 2.0, False))
    found = scoring.scores([(t, said("valu", 0.95)), (t, said("hbm", 0.97)), (t, said("hbm", 0.3))])
    assert found["matters_pct"] == pytest.approx(100 / 3)
    assert [(c["confidence"], c["kernels"], c["matters_pct"]) for c in found["calibration"]] == [
        ("0.3-0.4", 1, 0.0), ("0.9-1.0", 2, 50.0),
    ]  # fmt: skip


def test_the_best_is_taken_from_what_leaves_something_to_do() -> None:
    """Without its only work every kernel is fastest; that is no advice unless nothing else helps."""
    fix, less = Measured("more_groups", 2.0, True), Measured("no_fma", 100.0, False, empties=True)
    assert scoring.names_the_best(truth(fix, less), "dispatch")
    assert not scoring.names_the_best(truth(fix, less), "valu")
    assert scoring.names_the_best(truth(Measured("more_groups", 1.1, True), less), "valu")
    better = Measured("in_l1", 3.0, False)
    assert not scoring.names_the_best(truth(fix, better), "dispatch"), "two thirds of the best"
    assert scoring.names_the_best_fix(truth(fix, better), "dispatch")


def test_a_removal_supports_waiting_only_where_a_fix_of_the_same_demand_proves_it() -> None:
    """Twice as fast with the same bytes: no unit was full, so what the removal saves was waiting."""
    gone = Measured("no_loads", 10.0, False)
    proof, too_little = Measured("more_in_flight", 2.0, True), Measured("more_in_flight", 1.5, True)
    assert scoring.best_of_everything(truth(gone, proof), "latency")
    assert not scoring.best_of_everything(truth(gone, proof), "latency", proofs=False)
    assert not scoring.best_of_everything(truth(gone, too_little), "latency"), "a unit may have been at two thirds"
    assert not scoring.best_of_everything(truth(gone, Measured("wider_loads", 3.0, True)), "latency"), "fewer requests"
    assert not scoring.best_of_everything(truth(gone, proof), "barrier")
    assert scoring.best_of_everything(truth(gone, proof), "hbm")


def test_only_a_removal_of_all_work_empties_a_kernel() -> None:
    found = {t.kernel: {m.what for m in t.measured if m.empties} for t in scoring.truths(diagnoses.TIMES)}
    drawn = dict(zip(suite.names("tuning"), suite.suite("tuning"), strict=True))
    for name, launch in drawn.items():
        kinds = [a for a in (*suite.AMOUNTS, "live", "barrier") if getattr(launch.demand, a)]
        assert not found[name] or len(kinds) == 1, (name, found[name])
    assert sum(bool(empty) for empty in found.values()) > 50


def test_a_fix_that_counts_something_else_is_no_truth(tmp_path: Path) -> None:
    name = suite.names("tuning")[0]
    file = tmp_path / "times.csv"
    columns = "kernel,what,keeps_work,time_us,counted\n"
    file.write_text(columns + f"{name},base,1,100,7\n{name},more_in_flight,1,50,8\n{name},in_l1,0,40,7\n")
    (found,) = scoring.truths(file)
    assert [m.what for m in found.measured] == ["in_l1"]
    assert scoring.unlike(file) == [f"{name} more_in_flight"]


STAND_INS = {
    "nvcc": r"""
for word; do case $word in *.cu) source=$word;; esac; last=$word; done
case "$*" in *' -c '*) grep -o '"s[0-9]*k[0-9]*", "base"' "$source" > "$last"; exit 0;; esac
cat *.o | grep -o 's[0-9]*k[0-9]*' | sort > all
printf '#!/bin/bash\nexec python3 "%s" "$@"\n' "$PROGRAM" > interventions; chmod +x interventions
""",
    "ncu": """
while [ "$1" != --log-file ]; do shift; done; page=$2; shift 2
"$@" > done; cat done; python3 "$PROGRAM" page "$page" < done
""",
    "nvidia-smi": "echo NVIDIA H200",
}
"""What record.py runs, for a machine without a GPU: objects are lists of names, times and counters are made up."""

PROGRAM = """
import csv, gzip, sys
RECORDED = "{recorded}"
with gzip.open(RECORDED, "rt", newline="") as text:
    names, units, *rows = csv.reader(text)
kept = [i for i, n in enumerate(names) if not n.startswith("device__attribute_")]
if sys.argv[1] == "time":
    with open(sys.argv[2], "w") as times, open(sys.argv[3], "w") as scales:
        print("kernel,what,keeps_work,time_us,counted", file=times)
        for name in open("all").read().split():
            print(f"{{name}},base,1,100,7\\n{{name}},no_fma,0,50,7", file=times)
            print(name, 1, 1, file=scales)
elif sys.argv[1] == "once":
    for name in [l.split()[0] for l in open(sys.argv[2])][int(sys.argv[3])::int(sys.argv[4])]:
        print(name, 1056, 256)
else:
    order = sys.stdin.read().splitlines()
    size = ["(256, 1, 1)", "(1056, 1, 1)"]
    like = next(r for r in rows if [r[names.index(n)] for n in ("Block Size", "Grid Size")] == size)
    with open(sys.argv[2], "w", newline="") as text:
        page = csv.writer(text, quoting=csv.QUOTE_ALL)
        page.writerow(names[i] for i in kept)
        page.writerow(units[i] for i in kept)
        page.writerows([like[i] for i in kept] for _ in order)
        text.write('"9","cut')
"""


def test_kernels_of_a_new_seed_are_recorded_and_scored_in_one_command_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With stand-ins for the compiler and the profiler; the last line of each page is cut, as when ncu is ended."""
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "program.py").write_text(PROGRAM.format(recorded=diagnoses.COUNTERS))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PROGRAM", str(tmp_path / "program.py"))
    out = tmp_path / "out"
    monkeypatch.setattr(record, "PARTS", 2)
    monkeypatch.setattr(sys, "argv", ["record.py", "--seed", "3", "--count", "9", "--out", str(out)])
    assert record.main() == 0, capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["score.py", str(out), "--kernels"])
    assert score.main() == 0
    text = capsys.readouterr().out
    assert re.search(r"seed 3 +9 +9 ", text), text
    assert "wrong_and_sure" in text


def test_a_recording_that_was_interrupted_is_scored_by_what_it_has(tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    lines = diagnoses.TIMES.read_text().splitlines()
    times.write_text("\n".join(lines[:40]))
    pairs = diagnoses.of_recording(Store(tmp_path / "store"), diagnoses.COUNTERS, scoring.truths(times), "cut")
    assert 0 < len(pairs) < 40


def test_the_counters_of_a_recording_are_those_that_the_diagnosis_reads() -> None:
    wanted = {c for counters in plan("sm_90", ["diagnosis", "roofline"]).passes for c in counters}
    listed = set(record.COUNTERS.read_text().split())
    assert {c for c in wanted if not c.startswith(("nvlink", "device__"))} <= listed


def test_some_kernels_of_a_seed_are_of_all_kinds_and_always_the_same() -> None:
    some = suite.some_of(3, 80)
    assert some == suite.some_of(3, 80) and len(some) == 80
    assert len({one.family for one in some.values()}) > 20
    assert {suite.seed_of(name) for name in some} == {3}
    assert suite.some_of(3, 10**6) == suite.of_seed(3)
    with pytest.raises(ValueError, match="matmul"):
        suite.seed_of("matmul")


def test_a_page_whose_launches_are_in_another_order_is_refused(tmp_path: Path) -> None:
    page, order = tmp_path / "page.csv", tmp_path / "order.txt"
    rows = [
        ["ID", "Kernel Name", "Grid Size", "Block Size"],
        ["", "", "", ""],
        ["0", "demand", "(8, 1, 1)", "(64, 1, 1)"],
    ]
    with page.open("w", newline="") as text:
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    order.write_text("s1k000 8 64\n")
    assert merge.launches(page, order)[2][0][1] == "s1k000"
    order.write_text("s1k001 16 64\n")
    with pytest.raises(ValueError, match="s1k001"):
        merge.launches(page, order)


def test_the_recording_is_whole_and_every_fix_in_it_keeps_the_work() -> None:
    truths = scoring.truths(diagnoses.TIMES)
    assert len(truths) >= 300
    assert {t.half for t in truths} == set(suite.HALVES)
    assert scoring.unlike(diagnoses.TIMES) == []
    assert all(t.time_us > 0 for t in truths)
