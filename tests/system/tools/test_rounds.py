"""One round of optimising through profile_command: the check, the change since a baseline, and what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.analysis.comparison.experiment_log import ExperimentEntry, ExperimentOutcome, entries, record
from rooflens.analysis.timeline.busy import ProgramCeiling
from rooflens.tests.support.amd_node import Node, launching
from rooflens.tools.answers.rounds import OptimisationRound, round_of_run
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.rendering import render
from rooflens.tools.running.run_state import read_record, write

PASSES = ["/bin/sh", "-c", "echo checked >> checks"]
FAILS = ["/bin/sh", "-c", "echo result 3 is wrong; exit 1"]
COPIES = launching("copy", "copy", "copy", "fma")


@pytest.fixture(autouse=True)
def gpu(node: Node) -> None:
    node.has()


def profile(node: Node, folder: Path, **options: Any) -> RunResult:
    folder.mkdir(exist_ok=True)
    return node.profile(*COPIES, cwd=str(folder), **options)


def test_a_round_checks_compares_diagnoses_and_is_recorded_in_one_call(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    first = profile(node, folder, name="v0", check=PASSES, kernel="vecCopy")
    assert first.state == "done" and first.round is not None
    assert (first.round.check, first.round.baseline, first.round.verdict) == ("passed", None, None)
    kernel = next(row[0] for row in node.rows(first.workload, "d.kernel") if row[0].startswith("vecCopy"))
    outcome = ExperimentOutcome(kernel=kernel, verdict="inconclusive", speedup=1.0)
    record(
        node.store,
        ExperimentEntry(kind="comparison", workload=str(first.workload), change="other loads", outcomes=[outcome]),
    )
    second = profile(node, folder, check=PASSES, baseline="v0", change="wider loads", hypothesis="fewer requests")
    about = second.round
    assert about is not None and (about.check, about.baseline) == ("passed", first.workload)
    assert (about.verdict, about.same_work, about.speedup) == ("inconclusive", "probably", pytest.approx(1.0))
    assert about.limited_by and "vecCopy" in about.limited_by
    counted = {row[0] for row in node.rows(second.workload, "d.kernel", "SQ_WAVES") if row[1] is not None}
    assert {name.partition("(")[0] for name in counted} == {"vecCopy"}, "the kernels of the baseline are selected again"
    assert [node.manifest(run.workload).kernel_filter for run in (first, second)] == ["vecCopy"] * 2
    assert (folder / "checks").read_text() == "checked\n" * 2, "once in each round, and before the profiler"
    (entry,) = [e for e in entries(node.store) if e.kind == "comparison" and e.baseline]
    assert (entry.baseline, entry.workload, entry.change) == (first.workload, second.workload, "wider loads")
    assert about.tried == ["other loads: inconclusive, 1 times as fast"]
    text = render.text(second)
    assert "tried before: other loads" in text and len(text) / 4 < 700
    assert get_run(node.store, second.run_id).round == about
    # A part of the round that is impossible is named and the rest stays.
    times = profile(node, folder, name="times", metrics=[])
    assert times.round and times.round.attempts == [] and {times.round.limited_by, times.round.check} == {None}
    assert not times.round.problems, "nothing was counted, so nothing is missing"
    its = node.store.run_folder(second.run_id)
    write(its, read_record(its).model_copy(update={"baseline": times.workload}))
    judged = round_of_run(node.store, second.run_id, str(second.workload))
    assert (judged.baseline, judged.verdict, judged.problems) == (times.workload, "inconclusive", [])


def test_a_failed_check_ends_the_run_before_anything_is_measured(node: Node, tmp_path: Path) -> None:
    failed = profile(node, tmp_path / "app", check=FAILS)
    assert (failed.state, failed.workload, failed.steps_done, failed.round) == ("failed", None, 0, None)
    assert failed.problem and failed.problem.startswith("The check ended with status 1")
    assert failed.output == "result 3 is wrong" and "result 3" in render.text(failed)
    with pytest.raises(NotFound):
        node.store.resolve("latest")


def test_a_check_that_cannot_start_is_refused_before_the_run(node: Node, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no-such-check"):
        profile(node, tmp_path / "app", check=["no-such-check"])


def test_a_baseline_that_does_not_exist_is_refused_before_the_run(node: Node, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="v7"):
        profile(node, tmp_path / "app", baseline="v7")


@pytest.mark.parametrize(("known_pct", "shown"), [(1.07, False), (88.3, True)])
def test_a_ceiling_that_rests_on_few_kernels_is_not_shown(known_pct: float, shown: bool) -> None:
    ceiling = ProgramCeiling("partial", known_pct, 15.8, 4.27e9, 26_977_000_000)
    lines = OptimisationRound(program=ceiling).block().content
    assert any("of its ceiling" in line for line in lines) == shown
