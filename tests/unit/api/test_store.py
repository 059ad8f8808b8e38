"""A store from Python: workloads by name, what changes underneath, several stores and threads, nothing left open."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import rooflens
from rooflens.analysis.store.store import Store
from rooflens.api import calls
from rooflens.tools.base import progress as progress_reports

Profile = Callable[..., Path]


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="opne"):
        rooflens.opne  # type: ignore[attr-defined]  # noqa: B018
    assert set(rooflens.__all__) <= set(dir(rooflens))
    assert all(hasattr(rooflens, name) for name in rooflens.__all__)


def test_a_workload_is_found_by_name_id_prefix_and_latest(store: rooflens.OpenStore) -> None:
    named = store["yax_before"]
    # Both were made within a second, so that they share the beginning of their ids.
    other = store["yax_after"].id
    length = next(n for n in range(1, 17) if named.id[:n] != other[:n])
    assert named.id == store[named.id].id == store[named.id[:length]].id
    assert store["latest"].name == "yax_after" and "yax_after" in store and "nope" not in store and 3 not in store
    assert [w.name for w in store] == ["yax_after", "yax_before"] and len(store) == 2
    assert store._ipython_key_completions_() == ["yax_after", "yax_before"]


def test_a_workload_that_is_not_there_is_told_with_near_names(store: rooflens.OpenStore) -> None:
    with pytest.raises(rooflens.Problem, match="There is no workload 'yax_befor'.*yax_before"):
        store["yax_befor"]
    with pytest.raises(TypeError, match="not by int"):
        store[0]  # type: ignore[index]


def test_workloads_are_a_frame_newest_first_with_times_in_utc(store: rooflens.OpenStore) -> None:
    found = store.workloads().df()
    assert list(found["name"]) == ["yax_after", "yax_before"]
    assert isinstance(found["created"].dtype, pd.DatetimeTZDtype) and str(found["created"].dt.tz) == "UTC"
    assert found["dispatches"].dtype == "int64" and found["counters"].gt(0).all()


def test_points_in_time_are_such_in_own_sql_too_and_texts_stay_texts(store: rooflens.OpenStore) -> None:
    listed = store.workloads().df().set_index("workload")["created"]
    found = store.sql("SELECT workload, created AS at, substr(created, 1, 10) AS day FROM workloads")
    found = found.df().set_index("workload")
    assert found["at"].dtype == listed.dtype and found["at"].sort_index().equals(listed.sort_index().rename("at"))
    assert found.attrs["units"] == {"at": "UTC"} and found["day"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    none = store.sql("SELECT created FROM workloads WHERE false").df()["created"]
    assert isinstance(none.dtype, pd.DatetimeTZDtype) and none.empty


def test_what_another_process_adds_or_deletes_is_seen_at_once(tmp_path: Path, profile: Profile) -> None:
    ours, theirs = rooflens.open(tmp_path / "store"), rooflens.open(tmp_path / "store")
    assert len(ours) == 0 and "0 workloads" in repr(ours) and ours.workloads().df().empty
    made = theirs.import_profile(profile(), name="v1")
    assert list(ours.workloads().df()["name"]) == ["v1"]
    held = ours["v1"]
    assert len(held.kernels().df()) == 1
    shutil.rmtree(made.folder)
    for question in (held.kernels, held.metrics, held.roofline, held.report, lambda: held.sql("FROM dispatches")):
        with pytest.raises(rooflens.Problem, match=r"'v1' .* is no longer in the store.*deleted"):
            question()
    assert held.name == "v1"


def test_a_store_whose_folder_is_gone_says_so(tmp_path: Path, profile: Profile) -> None:
    store = rooflens.open(tmp_path / "store")
    held = store.import_profile(profile(), name="v1")
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(rooflens.Problem, match="no longer in the store"):
        held.metrics()
    with pytest.raises(rooflens.Problem, match="is empty"):
        store["v1"]
    assert store.workloads().df().empty and store.sql("FROM dispatches").df().empty


def test_a_shared_store_is_shown_by_its_address_and_brings_files_asked_for(
    store: rooflens.OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = rooflens.open(store.root)
    monkeypatch.setattr(shared._store, "address", "s3://bucket/team")
    monkeypatch.setattr(shared._store, "folder", lambda manifest: tmp_path / manifest.id)
    w = shared["yax_before"]
    assert w.folder == tmp_path / w.id and "s3://bucket/team" in repr(shared)


def test_a_store_that_is_only_read_must_exist(tmp_path: Path) -> None:
    with pytest.raises(rooflens.Problem, match="There is no store at .*nowhere") as told:
        rooflens.open(tmp_path / "nowhere", read_only=True)
    assert told.value.code == "not_found" and len(rooflens.open(tmp_path / "nowhere")) == 0


def test_a_read_only_store_refuses_what_writes(store: rooflens.OpenStore, profile: Profile) -> None:
    reading = rooflens.open(store.root, read_only=True)
    assert reading.read_only and "read-only" in repr(reading) and not store.read_only
    with pytest.raises(rooflens.Problem, match="read-only"):
        reading.import_profile(profile())
    with pytest.raises(rooflens.Problem, match="reading only"):
        reading.profile(["true"])
    assert len(reading["yax_before"].metrics().df()) > 10


def test_two_stores_and_many_threads_do_not_mix(
    store: rooflens.OpenStore, shipped: rooflens.OpenStore, tmp_path: Path
) -> None:
    def asked(n: int) -> tuple[str, int]:
        w = (store["yax_before"], shipped["matmul_fp64"])[n % 2]
        kernels = w.sql("SELECT DISTINCT kernel FROM dispatches").df()
        return w.name, len(kernels) + len(w.kernels().df())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(asked, range(8)))
    assert set(found) == {("yax_before", 2), ("matmul_fp64", 12)}


def test_nothing_stays_open_after_a_question(store: rooflens.OpenStore) -> None:
    def files() -> list[str]:
        return [path for path in map(_opened, os.listdir("/proc/self/fd")) if path.startswith(str(store.root))]  # noqa: PTH208

    w = store["yax_before"]
    w.sql("FROM counters"), w.metrics(), w.sql("FROM dispatches")
    del w
    gc.collect()
    assert files() == []


def _opened(number: str) -> str:
    """What a descriptor stands for; another thread may have closed it meanwhile."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
    except FileNotFoundError:
        return ""


def test_a_failing_program_is_a_problem_with_what_it_printed(tmp_path: Path) -> None:
    store = rooflens.open(tmp_path / "store")
    told: list[str] = []
    with pytest.raises(rooflens.Problem) as failed:
        store.profile(["/no/such/program"], gpu="cpu", progress=told.append)
    assert failed.value.text and len(store) == 0


def test_a_plan_holds_commands_and_their_files(store: rooflens.OpenStore) -> None:
    plan = store.plan("gfx90a", "roofline.f32.hbm", command=["./app", "-n", "8"])
    assert len(plan.df()) >= 1 and "./app -n 8" in plan.script and plan.script.startswith("mkdir -p ")
    assert plan.df("files")["text"].all()
    with pytest.raises(rooflens.Problem, match="has no argument 'comand'"):
        store.plan("gfx90a", comand=["./app"])


@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_whatever_progress_raises_cancels_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    cancelled: list[str] = []

    def progress(_: str) -> None:
        raise raised

    monkeypatch.setattr(progress_reports, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(calls, "call", lambda *_: SimpleNamespace(state="running", run_id="r1"))
    monkeypatch.setattr(calls, "get_run", lambda *_, **__: progress_reports.report("counting"))
    monkeypatch.setattr(calls, "cancel_run", lambda _, run: cancelled.append(run))
    with pytest.raises(raised), progress_reports.listening(progress):
        calls.wait_for_result(Store(tmp_path), rooflens.open, {})
    assert cancelled == ["r1"]
