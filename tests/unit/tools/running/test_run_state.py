"""Finding runs by id, and what becomes of old, damaged and foreign ones."""

from __future__ import annotations

import os
import time

import pytest

from rooflens.analysis.base.problems import NotAllowed, NotFound, StoreProblem
from rooflens.analysis.store.store import Store
from rooflens.tools.base.progress import Activity, listening
from rooflens.tools.running import run_state as runs
from rooflens.tools.running import start as launch
from rooflens.tools.running.processes import ProcessId, this_process
from rooflens.tools.running.run_state import ProfileRun, RunState, read_state, write


def _made(store: Store, **changes: object) -> str:
    run_id, folder = launch.new_run(store)
    write(folder, ProfileRun(run_id=run_id, name="x", steps=["one"], timeout_s=1))
    write(folder, RunState.model_validate({"state": "done", "ended_ns": time.time_ns(), **changes}))
    time.sleep(0.002)  # ids sort by the millisecond
    return run_id


def test_a_run_is_found_by_id_prefix_and_as_the_latest(store: Store) -> None:
    first, second = _made(store), _made(store)
    assert runs.find(store, first).name == first
    assert runs.find(store, "latest").name == second
    assert runs.find(store, second[:-2]).name == second
    with pytest.raises(NotFound, match="not unique"):
        runs.find(store, "run-")
    with pytest.raises(NotFound, match=f"Near names: .*{first}"):
        runs.find(store, first[:-1] + "!")


@pytest.mark.parametrize("reference", ["", "../..", "run-", "/etc", "x"])
def test_nothing_but_a_run_is_found(store: Store, reference: str) -> None:
    with pytest.raises(NotFound):
        runs.find(store, reference)
    _made(store)
    if reference != "run-":
        with pytest.raises(NotFound):
            runs.find(store, reference)


def test_folders_of_runs_are_closed_to_others_and_a_damaged_state_is_a_problem(store: Store) -> None:
    folder = store.run_folder(_made(store))
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    (folder / "state.json").write_text("{")
    with pytest.raises(StoreProblem, match="cannot be read"):
        runs.inspect_run(store, folder)


def test_runs_that_ended_long_ago_are_removed_and_others_kept(store: Store) -> None:
    old, new = _made(store, ended_ns=time.time_ns() - 15 * 86_400 * 10**9), _made(store)
    running = _made(store, state="running", ended_ns=None, supervisor=this_process())
    runs.sweep_old(store)
    assert not store.run_folder(old).exists()
    assert store.run_folder(new).exists() and store.run_folder(running).exists()


def test_a_run_of_another_machine_lives_while_its_state_is_touched(store: Store) -> None:
    far = ProcessId(host="elsewhere pid:[1]", boot="b", pid=1, start=1)
    folder = store.run_folder(_made(store, state="running", ended_ns=None, supervisor=far))
    assert runs.inspect_run(store, folder)[1].state == "running"
    os.utime(folder / "state.json", (0, 0))
    assert runs.inspect_run(store, folder)[1].state == "failed"


@pytest.mark.parametrize("change", [{"start": 1}, {"boot": "before"}])
def test_a_process_number_used_again_is_not_the_supervisor(store: Store, change: dict[str, object]) -> None:
    other = this_process().model_copy(update=change)
    folder = store.run_folder(_made(store, state="running", ended_ns=None, supervisor=other))
    assert runs.inspect_run(store, folder)[1].state == "failed" and read_state(folder).state == "failed"


def test_a_store_for_reading_tells_of_a_dead_run_without_writing(store: Store) -> None:
    dead = this_process().model_copy(update={"start": 1})
    folder = store.run_folder(_made(store, state="running", ended_ns=None, supervisor=dead))
    reading = Store(store.root, read_only=True)
    assert runs.inspect_run(reading, folder)[1].state == "failed" and read_state(folder).state == "running"
    with pytest.raises(NotAllowed):
        runs.cancel(reading, folder)
    with pytest.raises(NotAllowed):
        launch.new_run(reading)


def test_who_waits_hears_what_is_being_done(store: Store) -> None:
    run_id = _made(store, state="running", supervisor=this_process(), activity="pass_1: launch 2 of 9 (gemm)")
    heard: list[Activity] = []
    with listening(heard.append):
        runs.wait(store, store.run_folder(run_id), 0.1)
    assert [(str(one), one.share) for one in heard] == [("pass_1: launch 2 of 9 (gemm)", 0.0)]
