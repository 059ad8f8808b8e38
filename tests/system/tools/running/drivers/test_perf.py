"""Command lines of perf stat, run where perf is installed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.tools.running.drivers.perf import features, features_of, steps
from rooflens.tools.running.job import Step
from rooflens.tools.running.known_failures import explain_failure
from rooflens.tools.running.request import ProfileRequest

REQUEST = ProfileRequest(command=("./app", "-e", "x"), passes=(("cycles", "branch-misses"),), target="cpu", repeats=2)


def run(step: Step, out: Path) -> subprocess.CompletedProcess[str]:
    (out / step.name).mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith(step.unset)} | step.env
    return subprocess.run(step.argv, capture_output=True, text=True, env=env, check=False, timeout=120)


@pytest.fixture
def perf() -> str:
    found = shutil.which("perf")
    if found is None:
        pytest.skip("needs perf")
    return found


def test_each_repeat_is_a_run_of_its_own() -> None:
    made = steps(REQUEST, features_of(None), program="perf", out="run")
    assert [s.name for s in made] == ["run_1", "run_2"]
    assert made[1].argv == (
        "perf", "stat", "-x", ",", "-o", "run/run_2/stat.csv", "-e", "cycles,branch-misses,duration_time,task-clock",
        "--", "./app", "-e", "x",
    )  # fmt: skip


def test_a_perf_without_the_time_as_event_writes_its_text() -> None:
    (step, _) = steps(REQUEST, features_of("4.18"), program="perf", out="run")
    assert "-x" not in step.argv
    assert "duration_time" not in step.counters
    assert features("", "perf version 4.18.0-553.el8").times_as_events is False
    assert features("", "perf version 6.1.187").times_as_events is True


def test_what_perf_has_no_option_for_is_refused() -> None:
    for change in ({"kernel": "x"}, {"launches": (1, 2)}, {"replay": "kernel"}, {"repeats": 0}, {"repeats": 101},
                   {"passes": (("-a",),)}, {"passes": (("cycles instructions",),)}):  # fmt: skip
        with pytest.raises(BadArgument):
            steps(dataclasses.replace(REQUEST, **change), features_of(None), program="perf", out="run")  # type: ignore[arg-type]


def test_the_real_perf_takes_the_command_line_and_writes_where_it_should(perf: str, tmp_path: Path) -> None:
    odd = ("import sys; print(sys.argv[1:])", "$(touch pwned)", ";", "--output", "a\nb")
    wanted = dataclasses.replace(
        REQUEST, command=(sys.executable, "-c", *odd), passes=(("cycles", "page-faults"),), repeats=1
    )
    (step,) = steps(wanted, features_of(None), program=perf, out=str(tmp_path))
    done = run(step, tmp_path)
    if done.returncode and explain_failure("perf", done.returncode, done.stderr):
        pytest.skip("perf may not count here")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{list(odd[1:])}\n"
    rows = [line.split(",") for line in (tmp_path / "run_1" / "stat.csv").read_text().splitlines() if "," in line]
    values = {row[2]: row[0] for row in rows}
    assert values.keys() >= {"page-faults", "duration_time", "task-clock"}
    assert float(values["page-faults"]) > 0
    assert float(values["duration_time"]) > 1e6


def test_the_real_perf_fails_in_words_that_are_known(perf: str, tmp_path: Path) -> None:
    (step,) = steps(
        dataclasses.replace(REQUEST, command=("true",), passes=(("nosuch-event",),), repeats=1),
        features_of(None), program=perf, out=str(tmp_path),
    )  # fmt: skip
    done = run(step, tmp_path)
    said = explain_failure("perf", done.returncode, done.stderr)
    assert isinstance(said, BadArgument)
    assert "nosuch" in said.what
    other = dataclasses.replace(step, name="run_2", argv=(*step.argv[:2], "-e", "task-clock", "--", "./nosuch"))
    done = run(other, tmp_path)
    said = explain_failure("perf", done.returncode, done.stderr)
    assert isinstance(said, NotFound)
    assert "No such file" in said.why
