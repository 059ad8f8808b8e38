"""How a run is shown: recorded states as answers, and whose words explain a failure."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.running import start as launch
from rooflens.tools.running.failure_report import explain_run_failure
from rooflens.tools.running.processes import this_process
from rooflens.tools.running.run_state import BenchmarkRun, ProblemText, ProfileRun, RunState, read_record, write

FAILED = ProblemText(kind="BadInput", what="The profiled program ended with status 1 in pass_1", fix="Run it by hand")


@pytest.fixture
def show(store: Store):
    """``show(request changes, logs, **state)`` records a run as its supervisor does and gives what get_run answers."""

    def recorded(
        request: dict[str, object] | None = None, logs: dict[str, str] | None = None, **state: object
    ) -> RunResult:
        run_id, folder = launch.new_run(store)
        asked = {
            "run_id": run_id, "name": "x", "created_ns": time.time_ns() - 10**9, "steps": ["timing", "pass_1"],
            "timeout_s": 1, "notes": ["a note"],
        }  # fmt: skip
        kind = BenchmarkRun if (request or {}).get("kind") == "benchmark" else ProfileRun
        write(folder, kind.model_validate({**asked, "profiler": "perf", **(request or {})}))
        for name, text in (logs or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        run = read_record(folder)
        held = RunState.model_validate({"state": "running", "supervisor": this_process(), **state})
        if held.problem and isinstance(run, ProfileRun):
            held.problem = explain_run_failure(run, held, folder, held.problem)
        write(folder, held)
        return get_run(store, run_id)

    return recorded


def test_a_running_run_tells_how_far_it_is_and_to_ask_again(show) -> None:
    found = show(activity="run 2 of 2: pass_1", finished=["timing"], step="pass_1")
    assert (found.state, found.progress, found.steps_done, found.steps) == ("running", "run 2 of 2: pass_1", 1, 2)
    assert found.elapsed_s >= 1 and found.notes == ["a note"] and found.problem is None and found.output is None
    assert [(n.tool, n.arguments["run_id"]) for n in found.next] == [("get_run", found.run_id)]


def test_a_failure_nobody_explains_is_told_as_recorded_with_the_last_lines(show) -> None:
    logs = {"logs/pass_1.err": "first\n\n" + "x" * 1000 + "\nlast \x1b[31mline\u202e\n", "logs/timing.err": "elsewhere"}
    found = show(state="failed", fault="pass_1", status=1, problem=FAILED, ended_ns=time.time_ns(), logs=logs)
    assert found.problem == "The profiled program ended with status 1 in pass_1. Run it by hand."
    lines = (found.output or "").splitlines()
    assert lines[0] == "first" and len(lines[1]) == 300 and lines[2] == "last line" and found.next == []


def test_what_a_profiler_wrote_into_a_file_of_its_own_is_read_too(show) -> None:
    logs = {"logs/pass_1.err": "", "unfinished/pass_1/raw.csv": "==ERROR== ERR_NVGPUCTRPERM - no permission\n"}
    found = show({"profiler": "ncu"}, logs, state="failed", fault="pass_1", status=1, problem=FAILED)
    assert found.problem and "CAP_SYS_ADMIN" in found.problem
    assert "ERR_NVGPUCTRPERM" in (found.output or "")


def test_a_limit_is_not_explained_away_by_what_the_profiler_said(show) -> None:
    late = ProblemText(kind="LimitExceeded", what="The run took longer than 5 s")
    said = {"logs/pass_1.err": "No permission to enable cycles event; see perf_event_paranoid"}
    assert show(state="failed", fault="pass_1", problem=late, logs=said).problem == "The run took longer than 5 s."


def test_the_log_of_our_own_calls_is_not_shown(show) -> None:
    logs = {"logs/import.err": "Traceback (most recent call last):\n  File /home/me"}
    found = show(state="failed", fault="import", problem=ProblemText(what="rooflens failed in import"), logs=logs)
    assert found.output is None and "Traceback" not in found.model_dump_json()


def test_a_workload_that_was_removed_meanwhile_is_no_failure_of_the_answer(show) -> None:
    found = show(state="done", result={"workload": "0123456789abcdef"}, ended_ns=time.time_ns())
    assert found.state == "done" and found.kernels is None and "There is no workload" in found.warnings[0]


def test_another_kind_of_run_shows_what_it_gave_so_far(show) -> None:
    rows = [{"ceiling": "hbm.copy", "unit": "GB/s", "value": 4200.4321, "status": "ok"}]
    found = show({"kind": "benchmark", "steps": ["peaks"]}, state="running", result={"ceilings": rows})
    assert found.ceilings and found.ceilings.rows[0][:3] == ["hbm.copy", 4200.4, "GB/s"] and found.workload is None


TRACEBACK = [
    "Traceback (most recent call last):",
    *[f'  File "/app/layer_{i}.py", line {i}, in forward' for i in range(40)],
    "ModuleNotFoundError: No module named 'torch'",
]


def _failed(show, err: str = "", out: str = "", page: str = "", **request: object) -> RunResult:  # type: ignore[no-untyped-def]
    logs = {"logs/pass_1.err": err, "logs/pass_1.out": out, "unfinished/pass_1/raw.csv": page}
    found: RunResult = show(
        {"profiler": "ncu", **request}, logs, state="failed", fault="pass_1", status=1, problem=FAILED
    )
    return found


PAGE = """==PROF== Connected to process 567 (/usr/bin/python3.12)
==PROF== Disconnected from process 567
==ERROR== The application returned an error code (1).
==WARNING== No kernels were profiled.
"""


def test_a_program_that_fails_is_quoted_and_not_its_profiler(show) -> None:
    found = _failed(
        show, "epoch 0\n" + "\n".join(TRACEBACK), "loading\n" * 40 + "==PROF== Connected to process 1\n", PAGE
    )
    lines = (found.output or "").splitlines()
    assert lines[0] == TRACEBACK[0] and lines[1].strip() == "..." and TRACEBACK[-1] in lines
    assert lines[-6:] == ["output:", *["loading"] * 5] and len(lines) <= 15
    assert "==" not in (found.output or "")


def test_a_missing_module_names_the_interpreter_that_ran(show, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "python").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = _failed(show, "\n".join(TRACEBACK), page=PAGE, command="python train.py")
    assert found.problem and f"It ran with {tmp_path}/python, the python on the server's PATH" in found.problem
    own = _failed(show, "\n".join(TRACEBACK), page=PAGE, command="python train.py", variables=["PATH"])
    assert own.problem and "It ran with python. " in own.problem


def test_an_error_on_standard_output_alone_is_shown(show) -> None:
    found = _failed(show, "", "step 1\nCUDA error: an illegal memory access was encountered\n", PAGE)
    assert found.output == "step 1\nCUDA error: an illegal memory access was encountered"


def test_a_profiler_that_fails_itself_is_quoted_beside_the_program(show) -> None:
    page = PAGE.replace("==ERROR== The", '==ERROR== Failed to profile "gemm" in process 5\n==ERROR== The')
    found = _failed(show, "", "step 1\n", page)
    assert found.output == 'step 1\n==ERROR== Failed to profile "gemm" in process 5'


def test_a_progress_bar_is_shown_as_a_terminal_would_have_left_it(show) -> None:
    found = _failed(show, "\r".join(f"{i}%" for i in range(0, 101, 10)) + "\nValueError: bad shape\n")
    assert found.output == "100%\nValueError: bad shape"


def test_kernels_of_triton_are_told_with_their_file_and_line(
    store: Store, show, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rooflens.tests.support.small_store import add_workload

    manifest = add_workload(store, "first")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    (tmp_path / "HASH").mkdir()
    (tmp_path / "HASH" / "kernel_2.ttir").write_text('#loc = loc("/app/model.py":12:0)\nmodule {\n')
    here, done = os.uname().nodename, {"state": "done", "result": {"workload": manifest.id}, "ended_ns": time.time_ns()}
    found = show({"host": here}, **done)
    assert found.sources and found.sources.rows == [["kernel_2", "/app/model.py", 12]]
    assert show({"host": "elsewhere"}, **done).sources is None
    assert show({"host": here, "variables": ["TRITON_CACHE_DIR"]}, **done).sources is None
