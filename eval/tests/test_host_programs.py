"""Programs whose host cause is known, as recorded on an H200: the first row of the answer on host code is the cause."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.timeline.hot_code import HotCode
from rooflens.analysis.timeline.timeline import Timeline, timeline
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tools.compute_timeline import TimelineResult, compute_timeline

SUITE = ROOT / "eval" / "host"
PROGRAMS: dict[str, dict[str, Any]] = tomllib.loads((SUITE / "programs.toml").read_text())
RECORDED = sorted(folder.name for folder in (SUITE / "h200").iterdir())


def imported(store: Store, name: str) -> Manifest:
    """The recording of a program as a workload."""
    with store.draft() as folder:
        for file in (SUITE / "h200" / name).iterdir():
            shutil.copy(file, folder)
        ((events,),) = duckdb.execute(f"SELECT count(*) FROM '{folder}/events.parquet'").fetchall()
        return store.publish(folder, Manifest(name=name, format="cupti", vendor="nvidia", arch="sm_90", events=events))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("store"))
    for name in RECORDED:
        imported(made, name)
    return made


def analysed(store: Store, name: str) -> Timeline:
    with Workload.open(store, name) as workload:
        return timeline(workload)


def rows(store: Store, name: str) -> list[HotCode]:
    host = analysed(store, name).host
    assert host is not None
    return list(host.codes.rows)


def function(row: HotCode) -> str:
    """The function of a row, without the types of its arguments."""
    return row.frame.function.partition("(")[0]


def test_the_suite_covers_the_usual_causes() -> None:
    assert len(RECORDED) >= 12
    assert {PROGRAMS[name]["kind"] for name in RECORDED} >= {
        "loop", "wait", "copy", "cache", "garbage", "decode", "text", "logging", "lock", "loader", "native",
    }  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_the_cause_comes_first(store: Store, name: str) -> None:
    program = PROGRAMS[name]
    assert function(rows(store, name)[0]) in {program["function"], *program["also"]}


@pytest.mark.parametrize("name", RECORDED)
def test_almost_all_idle_time_of_the_host_has_code(store: Store, name: str) -> None:
    host = analysed(store, name).host
    assert host is not None
    assert host.codes.unexplained.sum() <= 0.05 * host.codes.total.sum()


@pytest.mark.parametrize("name", RECORDED)
def test_the_code_adds_up_to_no_more_than_the_idle_time(store: Store, name: str) -> None:
    made = analysed(store, name)
    assert made.host is not None
    charged = sum(row.idle_ns for row in made.host.codes.rows) + float(made.host.codes.unexplained.sum())
    assert charged <= made.host.codes.total.sum() * (1 + 1e-9) <= made.total.idle * (1 + 1e-9)


def test_a_lock_is_followed_to_the_thread_that_holds_it(store: Store) -> None:
    first = rows(store, "thread_lock")[0]
    assert (function(first), first.via) == ("ErrorStatistics.refresh", "wait")


def test_a_queue_is_followed_to_the_workers_that_fill_it(store: Store) -> None:
    first = rows(store, "slow_workers")[0]
    assert (function(first), first.via) == ("SensorWindows.__getitem__", "wait")


def test_a_thread_that_holds_the_lock_of_the_interpreter_is_named(store: Store) -> None:
    first = rows(store, "gil_thread")[0]
    assert (function(first), first.via) == ("MemoryMonitor.watch", "gil")


def test_native_code_between_calls_is_named_by_the_function_that_makes_them(store: Store) -> None:
    first = rows(store, "cpp_host_function")[0]
    assert first.frame.file is not None
    assert Path(first.frame.file).name == "cpp_host_function.cu"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("garbage_collection", "garbage"),
        ("serial_decoding", "decode"),
        ("tokenising", "text"),
        ("logging_to_file", "logging"),
        ("loader_no_workers", "loader"),
        ("slow_workers", "loader"),
    ],
)
def test_what_the_code_does_is_recognised(store: Store, name: str, kind: str) -> None:
    assert rows(store, name)[0].kind.name == kind


def test_the_answer_names_the_code_its_caller_and_what_the_program_gains(store: Store) -> None:
    answer: TimelineResult = compute_timeline(store, "tokenising")
    assert answer.answer is not None
    assert "Tokeniser.encode (tokenising.py:" in answer.answer
    assert "called by embed (tokenising.py:" in answer.answer
    table = [dict(zip(answer.code.columns, row, strict=True)) for row in answer.code.rows]
    assert table[0]["function"] == "Tokeniser.encode"
    assert 1 < table[0]["expected"] <= table[0]["at_most"]
    assert table[0]["source"]
    first = answer.findings[0]
    assert "tokeniser" in first.advice[0]
    assert not any("py-spy" in text for text in first.advice), "no advice to look for what is already named"


def test_start_up_is_told_apart_from_the_program(store: Store) -> None:
    host = analysed(store, "tokenising").host
    assert host is not None
    assert "Before the first work of a device: 0.141 s, of which main (tokenising.py:82)" in host.edges_text()
