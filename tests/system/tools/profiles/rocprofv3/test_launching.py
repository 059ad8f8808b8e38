"""Ranges and the numbers of launches in databases and recordings, checked against what the program did.

The same in CSV and JSON are cases of tests/cases/readers/rocprofv3.
"""

from __future__ import annotations

import csv
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rooflens.tests.standins import application
from rooflens.tests.standins.install import install

STEP = [
    {"kernel": "copy", "within": ["step", "forward"]},
    {"kernel": "fma", "within": ["step", "forward", "block/1"]},
    {"kernel": "copy", "within": ["step", "backward"]},
    {"kernel": "copy"},
]
Collect = Callable[..., Path]


@pytest.fixture
def collect(tmp_path: Path) -> Collect:
    """Runs the stand-in of a version with some options and gives the folder that it wrote to."""

    def start(*options: str, version: str = "1.3.2", launches: list[dict[str, object]] = STEP * 2, **env: str) -> Path:
        home = tmp_path / f"rocm-{version}"
        programs = install(home, version=version, launches=launches)  # type: ignore[arg-type]
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        line = [str(programs / "rocprofv3"), *options, "-d", str(out), "--", "/bin/true"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ROCPROF")}
        subprocess.run(line, check=True, timeout=120, env={**clean, **env}, capture_output=True)
        return out

    return start


def test_a_database_tells_the_ranges_and_which_of_them_launched_what(bench, collect):
    done = bench.load(collect("--kernel-trace", "--marker-trace", "--output-format", "rocpd"))
    ranges = bench.rows(done, "ranges", "path, name, depth, source, call_site, end_ns > start_ns")
    assert [path for path, *_ in ranges] == [
        "step", "step/forward", "step/forward/block/1", "step/backward",
    ] * 2  # fmt: skip
    assert ranges[2] == ("step/forward/block/1", "block/1", 2, "roctx", None, True)
    of = dict(bench.rows(done, "ranges", "range_id, path"))
    launched = [of.get(i) for i in bench.column(done, "dispatches", "range_id")]
    assert launched == ["step/forward", "step/forward/block/1", "step/backward", None] * 2
    assert any("8 roctx; 6 device events" in note for note in done.notes)
    assert not done.warnings


def test_with_calls_traced_the_call_on_the_host_tells_the_range(bench, shared, tmp_path):
    """The launches and calls are a real recording's; the ranges are laid around its real calls."""
    folder = tmp_path / "real"
    shutil.copytree(shared / "rocprofv3" / "api_trace", folder, ignore=shutil.ignore_patterns("*.db", "*.json"))
    (calls,) = folder.glob("*_hip_api_trace.csv")
    launches = [r for r in csv.DictReader(calls.open()) if r["Function"] == "hipLaunchKernel"]
    assert len(launches) == 9
    first, fourth, last = (launches[i] for i in (0, 3, 8))
    spans = [
        ("all", int(first["Start_Timestamp"]) - 5, int(last["End_Timestamp"]) + 5, 1),
        ("three", int(first["Start_Timestamp"]) - 3, int(fourth["Start_Timestamp"]) - 1, 2),
        ("another thread", int(first["Start_Timestamp"]) - 4, int(last["End_Timestamp"]) + 5, 3),
    ]
    rows = [
        ["MARKER_CORE_RANGE_API", name, 10564, 10564 + (name == "another thread"), 900_000 + i, start, end]
        for name, start, end, i in spans
    ]
    rows += [["MARKER_CORE_RANGE_API", "a mark", 10564, 10564, 1, spans[0][1], spans[0][1]]]
    rows += [["MARKER_CONTROL_API", "roctxProfilerPause", 10564, 10564, 2, spans[0][1], spans[0][2]]]
    header = list(launches[0])
    bench.csv("real/node01_10564_marker_api_trace.csv", header, rows)
    done = bench.load(folder)
    of = dict(bench.rows(done, "ranges", "range_id, path"))
    assert sorted(of.values()) == ["all", "all/three", "another thread"]
    by_id = dict(bench.rows(done, "dispatches", "dispatch_id, range_id"))
    assert [of[by_id[i]] for i in range(1, 10)] == ["all/three"] * 3 + ["all"] * 6


def test_the_environment_cannot_be_smuggled_in_as_the_name_of_a_range(bench, collect):
    out = collect("--kernel-trace", "--marker-trace", "--output-format", "rocpd", SECRET="canary-7f3a91c4")
    (file,) = out.rglob("*.db")
    assert b"canary" in file.read_bytes()
    with closing(sqlite3.connect(file)) as con, con:
        con.execute("DROP VIEW rocpd_event")
        (table,) = con.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_event_%'").fetchone()
        (process,) = con.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_info_process_%'").fetchone()
        con.execute(
            "CREATE VIEW rocpd_event AS SELECT e.id, e.guid, e.category_id, e.stack_id, "
            f'p.environment AS extdata FROM "{table}" e, "{process}" p'
        )
    done = bench.load(out)
    assert {name for (name,) in bench.rows(done, "ranges", "name")} == {"roctxThreadRangeA"}
    stored = b"".join(f.read_bytes() for f in bench.store.root.rglob("*") if f.is_file())
    assert b"canary" not in stored + done.model_dump_json().encode()


def test_launches_are_numbered_by_build_of_a_kernel_as_filters_count_them(bench, collect):
    """Triton compiles one name several times: rocprofv3 counts the launches of each build from 1."""
    other = {"kernel": "copy", "code_object": 2}
    launches: list[dict[str, object]] = [{"kernel": "copy"}, other, {"kernel": "copy"}, {"kernel": "fma"}, other, other]
    done = bench.load(collect("--kernel-trace", "--output-format", "rocpd", launches=launches))
    assert bench.column(done, "dispatches", "iteration") == [1, 1, 2, 1, 2, 3]
    counted = collect(
        "--pmc", "SQ_WAVES", "--kernel-iteration-range", "[2]", "--output-format", "csv", launches=launches
    )
    (file,) = counted.rglob("*counter_collection.csv")
    assert sorted(int(r["Dispatch_Id"]) for r in csv.DictReader(file.open())) == [3, 5]


def test_a_program_may_fork_and_every_process_has_its_ranges(bench, tmp_path):
    programs = install(tmp_path / "rocm", version="1.3.2")
    launch = '{"kernel": "copy", "within": ["step"]}'
    line = [str(programs / "rocprofv3"), "--kernel-trace", "--marker-trace", "-d", str(tmp_path / "out"), "--"]
    app = [sys.executable, application.__file__, "--fork", "--launch", launch, "--launch", launch]
    subprocess.run([*line, *app], check=True, timeout=120, capture_output=True)
    done = bench.load(tmp_path / "out")
    assert len(bench.rows(done, "ranges")) == 2
    assert sorted(bench.column(done, "dispatches", "range_id")) == [1, 1, 2, 2]
