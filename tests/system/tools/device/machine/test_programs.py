"""Asking programs: never out of the current folder, never longer than allowed, never with our secrets."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests.support.waiting import END_S, LONG_S
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.device.machine.programs import ask, find


def test_the_search_path_comes_first_then_the_newest_release(machine: Any) -> None:
    for folder in ("opt/rocm-6.9.0/bin", "opt/rocm-6.10.0/bin", "stand-ins"):
        machine.program("rocprofv3", "echo", folder)
    (machine.base / "opt/rocm").symlink_to("rocm-6.9.0")
    found = find("rocprofv3", machine.roots, ("opt/rocm/bin", "opt/rocm-*/bin"))
    names = [str(path.relative_to(machine.base)) for path in found]
    assert names == ["stand-ins/rocprofv3", "opt/rocm/bin/rocprofv3", "opt/rocm-6.10.0/bin/rocprofv3"]


def test_relative_entries_of_the_search_path_are_ignored(
    machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.program("nvidia-smi", "echo")
    monkeypatch.chdir(machine.bin)
    assert find("nvidia-smi", Roots(base=tmp_path / "none", search=os.pathsep.join(("", ".", "bin")), site=None)) == []


def test_files_that_cannot_be_run_are_passed_over(machine: Any) -> None:
    (machine.bin / "ncu").write_text("not executable")
    (machine.bin / "perf").mkdir()
    assert find("ncu", machine.roots) == find("perf", machine.roots) == []


def test_a_rocm_wheel_in_the_environment_is_found(machine: Any) -> None:
    machine.program("rocprofv3", "echo", "site/_rocm_sdk_core/bin")
    roots = Roots(base=machine.base, search="", site=machine.base / "site")
    assert len(find("rocprofv3", roots)) == 1


def test_arguments_arrive_literally(machine: Any) -> None:
    echo = machine.program("echo-it", 'printf "%s|" "$@"')
    assert ask([str(echo), "; touch x", "$(id)", "a\nb"], 5).out == "; touch x|$(id)|a\nb|"


def test_the_environment_holds_no_secrets(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-7421")
    assert "canary-7421" not in ask([str(machine.program("show", "env")), "x"], 5).out


def test_status_and_both_streams(machine: Any) -> None:
    answer = ask([str(machine.program("fails", "echo out; echo err >&2; exit 7"))], 5)
    assert (answer.code, answer.out, answer.err, answer.complaint) == (7, "out\n", "err\n", "ended with status 7: err")


def test_a_program_that_closes_its_output_and_stays_is_ended(machine: Any) -> None:
    start = time.monotonic()
    answer = ask([str(machine.program("stays", f"exec >&- 2>&-; sleep {LONG_S}"))], 0.4)
    assert answer.code is None and "did not answer" in answer.failure and time.monotonic() - start < END_S


def test_a_grandchild_that_keeps_the_pipe_does_not_hold_us(machine: Any) -> None:
    start = time.monotonic()
    marker = machine.base / "grandchild"
    answer = ask([str(machine.program("forks", f"(sleep {LONG_S}; touch {marker}) & echo done"))], LONG_S)
    assert (answer.code, answer.out) == (0, "done\n") and time.monotonic() - start < END_S


def test_a_missing_program_is_an_answer(tmp_path: Path) -> None:
    assert "could not be started" in ask([str(tmp_path / "absent")], 1).failure


def test_much_output_within_the_limit_is_whole(machine: Any) -> None:
    answer = ask([str(machine.program("many", "seq 1 20000"))], 20)
    assert answer.code == 0 and len(answer.out.splitlines()) == 20000
