"""Runs from start to end: steps in order, failures, limits, cancelling, and that nothing is left running."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rooflens.tests import DATA, ROOT
from rooflens.tests.support.run_bench import LONG_S, Bench, gone
from rooflens.tools.running import run_state as runs
from rooflens.tools.running import saving
from rooflens.tools.running import start as launch
from rooflens.tools.running.job import CallStep
from rooflens.tools.running.request import ProfileRequest

WRITE = "import os; open(os.environ['OUT'] + '/data', 'w').write('x')"
HOLD = "import time; time.sleep(600)"
OFTEN = "rooflens.tests.system.tools.running.plans:look_often"
FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pids = [os.getpid()]
sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
python = [sys.executable, "-IS", "-c", sleeper]
pids.append(subprocess.Popen(python).pid)
pids.append(subprocess.Popen(python, start_new_session=True).pid)
read, write = os.pipe()
if os.fork() == 0:            # a daemon: its parent ends, so it belongs to nobody
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        os.execv(sys.executable, python)
    os._exit(0)
pids.append(int(os.read(read, 20)))
draft = os.environ["OUT"] + "/draft"
open(draft, "w").write(" ".join(map(str, pids)))
os.rename(draft, os.environ["OUT"] + "/pids")
time.sleep(600)
"""


def _family(bench: Bench, run_id: str, step: str = "app") -> list[int]:
    """The processes of FAMILY, once all of them run."""
    path = bench.folder(run_id) / "out" / step / "pids"
    bench.until(path.exists)
    pids = [int(p) for p in path.read_text().split()]
    assert len(pids) == 4 and not any(gone(p) for p in pids)
    return pids


def test_steps_run_in_order_and_what_they_print_is_kept(bench: Bench) -> None:
    leave = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {HOLD!r}]).pid)"
    run = bench.begin(
        bench.step("one", f"{WRITE}; print('first')"),
        bench.step("two", f"{WRITE}; import sys; print('second', file=sys.stderr)"),
        bench.step("three", f"{WRITE}; {leave}"),
    )
    state = bench.end(run)
    assert (state.state, state.finished, state.problem) == ("done", ["one", "two", "three"], None)
    assert bench.log(run, "one.out") == "first\n" and bench.log(run, "two.err") == "second\n"
    (warning,) = state.warnings
    assert "ended 1 process still running" in warning and gone(int(bench.log(run, "three.out")))
    assert state.started_ns and state.ended_ns and state.started_ns < state.ended_ns


def test_input_files_are_written_and_do_not_count_as_output(bench: Bench) -> None:
    run = bench.begin(bench.step("one", "import os; print(open(os.environ['OUT'] + '/in.json').read())",
                                 files={"one/in.json": '{"a": 1}'}))  # fmt: skip
    state = bench.end(run)
    assert bench.log(run, "one.out") == '{"a": 1}\n'
    assert state.state == "failed" and state.problem and "without writing anything" in state.problem.what


def test_a_failing_step_ends_the_run_with_its_signal_and_its_words(bench: Bench) -> None:
    fail = "import os, sys; print('no such kernel', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)"
    run = bench.begin(
        bench.step("one", f"{WRITE}"),
        bench.step("two", f"{WRITE}; {fail}"),
        bench.step("three", WRITE),
    )
    state = bench.end(run)
    assert (state.state, state.fault, state.status, state.finished) == ("failed", "two", -11, ["one"])
    assert "SIGSEGV in two" in (state.problem.what if state.problem else "")
    assert "no such kernel" in bench.log(run, "two.err")
    assert (bench.folder(run) / "unfinished" / "two" / "data").exists()
    assert not (bench.folder(run) / "out" / "two").exists(), "a half-written pass must not be read"


def test_a_program_that_cannot_be_started_is_a_missing_tool(bench: Bench) -> None:
    state = bench.end(bench.begin(bench.step("one", "", argv=("/nowhere/rocprofv3",))))
    assert state.problem and state.problem.kind == "MissingTool" and "/nowhere/rocprofv3" in state.problem.what


def test_programs_get_no_input_and_nothing_of_our_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-4711-secret")
    monkeypatch.setenv("XLA_ROOM", "true")
    code = f"{WRITE}; print(os.environ['XLA_ROOM'], os.environ['XLA_GROWTH'])"
    run = bench.begin(
        bench.step("one", f"{WRITE}; import sys; print(repr(sys.stdin.read()), sorted(os.environ))"),
        bench.step("two", code, defaults={"XLA_ROOM": "false", "XLA_GROWTH": "true"}),
    )
    bench.end(run)
    assert bench.log(run, "one.out").startswith("''") and "CANARY" not in bench.log(run, "one.out")
    assert "ROOFLENS_RUN" in bench.log(run, "one.out")
    assert bench.log(run, "two.out") == "true true\n", "the program's variables win over defaults of a step"


def test_a_flood_of_output_fills_neither_disk_nor_memory_and_its_end_is_kept(bench: Bench) -> None:
    flood = "import os, sys\nblock = b'x' * (1 << 20)\nfor _ in range(64): os.write(1, block)\nos.write(1, b'THE END')"
    run = bench.begin(bench.step("one", f"{WRITE}\n{flood}"))
    assert bench.end(run).state == "done"
    log = bench.log(run, "one.out")
    assert len(log) < 200_000 and log.endswith("THE END") and "bytes omitted" in log


def test_a_time_limit_ends_a_run_and_everything_it_started(bench: Bench) -> None:
    for timeout_s in (0.5, 4, 20, 100):
        run = bench.begin(bench.step("app", FAMILY), timeout_s=timeout_s)
        state = bench.end(run, within_s=2 * LONG_S)
        assert state.state == "failed" and state.problem and state.problem.kind == "LimitExceeded"
        assert f"longer than {timeout_s:g} s" in state.problem.what
        if (told := bench.folder(run) / "unfinished" / "app" / "pids").exists():
            break  # it had the time to start them all
    pids = [int(p) for p in told.read_text().split()]
    assert len(pids) == 4 and all(gone(p) for p in pids)


def test_cancelling_ends_children_that_ignore_sigterm_and_daemons(bench: Bench) -> None:
    run = bench.begin(bench.step("app", FAMILY))
    pids = _family(bench, run)
    runs.cancel(bench.store, bench.folder(run))
    state = bench.end(run)
    assert (state.state, state.fault) == ("cancelled", "app")
    assert all(gone(p) for p in pids)


def test_a_program_that_forks_without_end_is_stopped(bench: Bench) -> None:
    bench.limits["processes"] = 10
    bomb = "import os, time\nfor _ in range(20):\n if os.fork() == 0:\n  time.sleep(600)\ntime.sleep(600)"
    run = bench.begin(bench.step("one", bomb), preparation=OFTEN)
    state = bench.end(run)
    assert state.problem and "more than 10 processes" in state.problem.what
    assert _marked(run) == []


def test_a_run_that_fills_the_disk_is_stopped(bench: Bench) -> None:
    bench.limits["disk_bytes"] = 2_000_000
    code = f"import os, time\nopen(os.environ['OUT'] + '/big', 'wb').write(b'x' * 4_000_000)\n{HOLD}"
    state = bench.end(bench.begin(bench.step("one", code), preparation=OFTEN))
    assert state.state == "failed" and state.problem and "too much disk" in state.problem.what


def test_a_run_stops_before_the_disk_is_full(bench: Bench) -> None:
    bench.limits["free_bytes"] = 10**18
    state = bench.end(bench.begin(bench.step("one", HOLD)))
    assert state.state == "failed" and state.problem and "stayed free" in state.problem.why


def test_a_supervisor_that_cannot_write_its_state_ends_everything(bench: Bench) -> None:
    run = bench.begin(bench.step("app", FAMILY), preparation=OFTEN)
    pids = _family(bench, run)
    folder = bench.folder(run)
    folder.rename(folder.with_name("elsewhere"))  # as if the disk were gone
    bench.until(lambda: all(gone(p) for p in pids))
    bench.until(lambda: not launch.live_runs())
    assert not folder.exists(), "nothing is written where the run was"


def test_a_second_run_on_the_same_device_waits_for_the_first(bench: Bench) -> None:
    device = {"gpu-0": "GPU 0"}
    first = bench.begin(bench.step("one", f"{WRITE}; {HOLD}"), devices=device)
    bench.until(lambda: bench.state(first).state == "running")
    second = bench.begin(bench.step("one", WRITE), devices=device)
    bench.until(lambda: "waiting for GPU 0: 1 run ahead" in bench.state(second).activity)
    third = bench.begin(bench.step("one", WRITE), devices=device)
    bench.until(lambda: "2 runs ahead" in bench.state(third).activity)
    other = bench.begin(bench.step("one", WRITE), devices={"gpu-1": "GPU 1"})
    assert bench.end(other).state == "done", "another device is free"
    runs.cancel(bench.store, bench.folder(second))
    assert bench.end(second).state == "cancelled" and bench.state(second).started_ns is None
    assert bench.state(third).state == "queued"
    runs.cancel(bench.store, bench.folder(first))
    assert bench.end(first).state == "cancelled" and bench.end(third).state == "done"


def test_runs_that_want_two_devices_in_other_orders_do_not_block_each_other(bench: Bench) -> None:
    runs = [
        bench.begin(bench.step("one", WRITE), devices=dict(order))
        for order in ([("a", "A"), ("b", "B")], [("b", "B"), ("a", "A")])
    ]
    assert [bench.end(run).state for run in runs] == ["done"] * 2


def test_a_killed_supervisor_leaves_nothing_running_and_a_failed_run(bench: Bench) -> None:
    run = bench.begin(bench.step("app", FAMILY))
    pids = _family(bench, run)
    supervisor = bench.state(run).supervisor
    assert supervisor
    os.kill(supervisor.pid, signal.SIGKILL)
    state = bench.end(run)
    assert state.state == "failed" and state.problem and "supervisor died" in state.problem.what
    bench.until(lambda: all(gone(p) for p in pids))


def test_a_reader_cleans_up_where_supervisor_and_starter_are_dead(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_await_supervisor", lambda *_: None)  # as if the server had been killed as well
    run = bench.begin(bench.step("app", FAMILY))
    pids = _family(bench, run)
    supervisor = bench.state(run).supervisor
    process = launch._live.pop(run)
    assert supervisor
    os.kill(supervisor.pid, signal.SIGKILL)
    process.wait()
    assert bench.state(run).state == "failed"
    bench.until(lambda: all(gone(p) for p in pids))


def test_stopping_everything_ends_queued_and_running_runs_at_once(bench: Bench) -> None:
    device = {"gpu-0": "GPU 0"}
    first = bench.begin(bench.step("app", FAMILY), devices=device)
    pids = _family(bench, first)
    second = bench.begin(bench.step("app", WRITE), devices=device)
    bench.until(lambda: "waiting" in bench.state(second).activity)
    launch.stop_all()
    assert all(gone(p) for p in pids)
    assert [bench.state(r).state for r in (first, second)] == ["failed", "failed"]


SAMPLE = ROOT / "server" / "samples" / "yax_before"
SAVED = {
    "finish": CallStep.of("import", saving.save), "name": "mine", "tags": ["a"],
    "request": ProfileRequest(target="gfx90a"), "command": "./app", "host": "here", "warnings": ["w"],
}  # fmt: skip
"""A run that becomes a workload."""
LEAVE_SAMPLE = (
    f"{WRITE}; import shutil; shutil.copytree({str(SAMPLE)!r}, os.environ['OUT'] + '/..', dirs_exist_ok=True)"
)


def test_what_the_finished_steps_left_is_kept_and_marked_when_a_later_one_fails(bench: Bench) -> None:
    run = bench.begin(bench.step("one", LEAVE_SAMPLE), bench.step("two", "raise SystemExit(3)"), **SAVED)
    state = bench.end(run)
    assert (state.state, state.partial, state.fault) == ("failed", True, "two")
    found = bench.store.resolve(state.result["workload"])
    assert found.tags == ["a", "partial"]
    assert (
        found.warnings[0].text.startswith("Partial: 1 of 2 runs of the program (one).")
        and "status 3 in two" in found.warnings[0].text
    )


def test_cancelling_a_later_step_keeps_the_earlier_ones(bench: Bench) -> None:
    run = bench.begin(bench.step("one", LEAVE_SAMPLE), bench.step("two", HOLD), **SAVED)
    bench.until(lambda: bench.state(run).step == "two")
    runs.cancel(bench.store, bench.folder(run))
    state = bench.end(run)
    assert (state.state, state.partial) == ("cancelled", True) and "partial" in bench.store.resolve("latest").tags


def test_files_that_cannot_be_read_fail_the_run_and_stay(bench: Bench) -> None:
    run = bench.begin(bench.step("one", WRITE), **SAVED)
    state = bench.end(run)
    assert state.state == "failed" and state.problem and state.problem.kind == "BadInput"
    assert (bench.folder(run) / "out" / "one" / "data").exists() and not bench.store.scan()[0]
    assert not list(bench.store.root.glob("tmp/*")), "nothing half-written stays in the store"


RECORDED = DATA / "ncu" / "small_raw.csv.gz"
LEAVE_PAGE = f"import gzip, os; page = gzip.open({str(RECORDED)!r}).read(); out = os.environ['OUT'] + '/raw.csv'\n"


def test_a_step_that_nobody_can_read_costs_none_of_the_others(bench: Bench) -> None:
    whole = bench.step("timing", f"{LEAVE_PAGE}open(out, 'wb').write(page)")
    half = bench.step("pass_1", f"{LEAVE_PAGE}open(out, 'wb').write(page[:len(page) * 2 // 3])")
    run = bench.begin(whole, half, **SAVED)
    state = bench.end(run)
    assert (state.state, state.partial) == ("failed", True)
    assert state.problem and "damaged" in state.problem.what
    found = bench.store.resolve(state.result["workload"])
    assert found.dispatches == 5 and "partial" in found.tags
    assert found.warnings[0].text.startswith("Partial: 1 of 2 runs of the program (timing). raw.csv is damaged.")
    assert (bench.folder(run) / "unfinished" / "pass_1" / "raw.csv").exists()


def test_results_that_cannot_be_made_readable_are_told_apart_from_no_results(bench: Bench) -> None:
    step = bench.step("pass_1", "print('measured')", then=("/bin/sh", "-c", "echo no report >&2; exit 1"))
    run = bench.begin(step)
    state = bench.end(run)
    assert state.problem and "could not be converted" in state.problem.what
    assert bench.log(run, "pass_1_page.err") == "no report\n" and "logs/pass_1_page.err" in state.problem.why


def test_a_bug_in_a_call_is_a_failure_without_a_traceback(bench: Bench) -> None:
    state = bench.end(bench.begin(CallStep.of("import", saving.save, nonsense=1)))
    assert state.state == "failed" and state.problem and "rooflens failed in import" in state.problem.what
    assert "Traceback" not in state.model_dump_json()


def test_a_lost_server_stops_the_run_without_saving(bench: Bench) -> None:
    run = bench.begin(bench.step("one", LEAVE_SAMPLE), bench.step("two", HOLD), **SAVED)
    bench.until(lambda: bench.state(run).step == "two")
    launch.stop_all()
    assert bench.state(run).state == "failed" and not bench.store.scan()[0]
    assert (bench.folder(run) / "out" / "one" / "data").exists()


def _marked(run_id: str) -> list[int]:
    entry = f"ROOFLENS_RUN={run_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and entry in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return [p for p in found if not gone(p)]
