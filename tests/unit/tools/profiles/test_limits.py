"""Small files that could cost much time or memory, and numbers that are none: refused or named, by every reader."""

from __future__ import annotations

import csv
import os
import socket
import sqlite3
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput, LimitExceeded, Problem
from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, Writer, repeated, run
from rooflens.tests.support.ncu_pages import LAUNCH
from rooflens.tests.support.waiting import at_most
from rooflens.tools.base import size_limits
from rooflens.tools.code_objects.kernels import read as read_code

RUN = run(*repeated(3, Launch("k(int)"), X_A=[1.0, 2.0, 3.0]))


@pytest.fixture
def soon():
    """The test takes no more than the ten seconds of work that a small file may cost, however busy the machine is."""
    with at_most(10):
        yield


def wide_page(file, rows, columns=3000):
    """A raw page of ncu; ``rows`` are the texts of all metrics."""
    with file.open("w", newline="") as handle:
        out = csv.writer(handle, quoting=csv.QUOTE_ALL, lineterminator="\n")
        out.writerow([*LAUNCH, *(f"smsp__inst_{i:05d}.sum" for i in range(columns))])
        out.writerow([*[""] * len(LAUNCH), *["inst"] * columns])
        for number, cells in enumerate(rows):
            out.writerow([*(LAUNCH | {"ID": str(number)}).values(), *cells])
    return file


# -- small files that cost much -------------------------------------------------------------------------------------


def test_text_in_a_wide_page_of_ncu_costs_no_more_than_numbers(bench, soon):
    done = bench.load(wide_page(bench.folder / "page.csv", [["1"] * 1000, ["oops"] * 1000], 1000))
    assert done.counters == 1000
    assert bench.column(done, "counters", '"smsp__inst_00000.sum"') == [1.0, None]
    (said,) = [w for w in done.warnings if "'oops'" in w]
    assert "smsp__inst_00000.sum" in said and "999 more" in said


def test_text_and_infinities_in_a_wide_workload_cost_no_more_than_numbers(bench, soon):
    columns = {f"TCC_EA0_RDREQ{i // 128}_sum[{i % 128}]": ["oops", 2] for i in range(400)}
    columns |= {f"SQ_C{i}_X": ["Infinity", i] for i in range(150)}
    done = bench.load(bench.workload(SQ_WAVES=[16, 17], **columns))
    assert len([w for w in done.warnings if "'oops'" in w]) == size_limits.NAMED_COLUMNS
    assert any("392 more columns" in w for w in done.warnings)
    assert bench.rows(done, "counter_instances", "count(*)") == [(400,)]
    assert bench.column(done, "counters", '"SQ_C7_X"') == [None, 7.0]
    assert sum("infinite" in w for w in done.warnings) == size_limits.NAMED_COLUMNS + 1


def test_more_columns_than_a_profile_has_are_refused(bench, soon):
    with pytest.raises(BadInput, match="columns.*at most"):
        bench.load(wide_page(bench.folder / "page.csv", [["1"] * 9000], 9000))


@pytest.mark.parametrize("runs", [2_000, 60_000])
def test_runs_without_anything_cost_next_to_nothing(bench, soon, runs):
    file = bench.folder / "1_results.json"
    file.write_text('{"rocprofiler-sdk-tool": [' + ",".join(["{}"] * runs) + "]}")
    with pytest.raises(BadInput, match="no kernel launches|more than 50,000 processes"):
        bench.load(file)
    assert bench.is_clean()


def test_a_file_of_hundreds_of_processes_is_read_and_one_of_thousands_refused(bench, soon):
    header = ["Process_Id", "Agent_Id", "Queue_Id", "Dispatch_Id", "Kernel_Name", "Correlation_Id", "Start_Timestamp",
              "End_Timestamp", *(f"{s}_Size_{a}" for s in ("Grid", "Workgroup") for a in "XYZ")]  # fmt: skip
    rows = [[i, 1, 1, 1, f"k{i % 3}", 1, 5, 9, 64, 1, 1, 64, 1, 1] for i in range(5000)]
    with pytest.raises(BadInput, match="5,000 processes"):
        bench.load(bench.csv("1_kernel_trace.csv", header, rows))
    done = bench.load(bench.csv("1_kernel_trace.csv", header, rows[:200]))
    assert done.dispatches == 200 and any("200 processes" in n for n in done.notes)


def test_a_counter_of_its_own_for_every_launch_is_refused(bench, soon):
    launches = [Launch("k", counters={f"X_{i}": [1.0]}) for i in range(3000)]
    with pytest.raises(BadInput, match="3,000 counters, but its launches have almost no values"):
        bench.load(Writer(bench.folder).counters("1", run(*launches)))


def test_listings_of_perf_with_too_much_text_or_too_many_events_are_refused(bench, soon):
    file = bench.folder / "stat.txt"
    file.write_text("".join(f"# started on now\n5,,e{i},100,100.00,,\n5,,cycles,100,100.00,,\n" for i in range(6000)))
    with pytest.raises(BadInput, match="events in 6,000 runs"):
        bench.load(file)
    file.write_text(" Performance counter stats for 'x':\n" + "x" * (17 << 20))
    with pytest.raises(LimitExceeded, match="larger than 16 MiB"):
        bench.load(file)
    file.write_text("".join(f"5,,e{i},100,100.00,,\n" for i in range(40_000)))
    with pytest.raises(BadInput, match="40,000 events"):
        bench.load(file)


def test_a_report_full_of_holes_is_refused_at_once(bench, soon):
    with (bench.folder / "x.ncu-rep").open("wb") as file:
        file.write(b"NVR\x00")
        file.truncate(20 << 30)
    with pytest.raises(BadInput, match="damaged"):
        bench.load(bench.folder / "x.ncu-rep")


# -- databases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("info_kernel_symbol", "SELECT guid, id, printf('%.*c', 500000000, 'x') AS display_name, "
         "'k' AS kernel_name, 1 AS arch_vgpr_count, 1 AS accum_vgpr_count, 1 AS sgpr_count FROM {like}"),
        ("info_kernel_symbol", "SELECT guid, id, hex(kernel_name) AS display_name, kernel_name, "
         "1 AS arch_vgpr_count, 1 AS accum_vgpr_count, 1 AS sgpr_count FROM {like}"),
        ("info_process", "SELECT a.id, a.guid, count(*) AS pid, 1 AS nid, '' AS command, 1 AS init, 2 AS fini "
         "FROM {like} a"
         + "".join(f", {{like}} t{i}" for i in range(30))),
        ("pmc_event", "SELECT a.* FROM {like} a" + "".join(f", {{like}} t{i}" for i in range(12))
         + " WHERE a.id + t9.id < 0"),
    ],
    ids=["giant text", "another function", "endless count", "endless join"],
)  # fmt: skip
def test_a_view_without_measure_is_refused_soon(bench, soon, monkeypatch, name, view):
    monkeypatch.setattr(size_limits, "DATABASE_PATIENCE_S", 0.2)
    file = write_rocpd(bench.folder / "1_results.db", run(*repeated(9, Launch("k"), X_A=[1.0] * 9)))
    con = sqlite3.connect(file)
    (table,) = con.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?", [f"rocpd_{name}_0%"]
    ).fetchone()
    source = "rocpd_kernel_dispatch" if name == "info_process" else f'"{table}"'
    con.execute(f"DROP VIEW rocpd_{name}")
    con.execute(f"CREATE VIEW rocpd_{name} AS {view.format(like=source)}")
    con.commit()
    con.close()
    with pytest.raises((LimitExceeded, BadInput), match=r"1_results\.db"):
        bench.load(file)
    assert bench.is_clean()


def test_names_of_tables_that_are_no_text_are_told(bench):
    file = write_rocpd(bench.folder / "1_results.db", RUN)
    content = file.read_bytes()
    file.write_bytes(content.replace(b"CREATE VIEW rocpd_info_pmc", b"CREATE VIEW rocpd_\xff\xfe\xff\xfe_pmc"))
    with pytest.raises(BadInput, match=r"1_results\.db"):
        bench.load(file)


@pytest.mark.parametrize("step", [0, 18])
def test_a_database_with_changed_bytes_is_read_or_named(bench, step):
    file = write_rocpd(bench.folder / "1_results.db", RUN)
    spoilt = bytearray(file.read_bytes())
    for place in range(100 + 37 * step, len(spoilt), 997):
        spoilt[place] ^= 0xFF
    file.write_bytes(spoilt)
    try:
        bench.load(file)
    except Problem as problem:
        assert "1_results.db" in problem.text
        assert bench.is_clean()


def test_numbers_with_underscores_are_told_and_a_file_full_of_them_is_refused(bench):
    file = write_rocpd(bench.folder / "1_results.db", RUN)
    con = sqlite3.connect(file)
    (table,) = con.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_pmc_event_0%'").fetchone()
    con.execute(f"UPDATE \"{table}\" SET value = '1_000' WHERE id = 2")
    con.commit()
    con.close()
    done = bench.load(file)
    assert bench.column(done, "counters", "X_A") == [1.0, None, 3.0]
    assert any("not finite numbers" in w for w in done.warnings)
    with pytest.raises(BadInput, match="numbers with underscores"):
        bench.load(bench.workload(SQ_WAVES=[f"1_{i:03d}" for i in range(200)]))


# -- files that once were bugs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["/proc/kmsg", "/dev/zero", "/dev/null"])
@pytest.mark.parametrize("format", ["auto", "ncu"])
def test_a_file_of_the_kernel_is_refused_at_once(bench, soon, file, format):
    if not Path(file).exists():
        pytest.skip(f"needs {file}")
    with pytest.raises(Problem):
        bench.load(file, format=format)
    assert bench.is_clean()


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "kernel"])
@pytest.mark.parametrize("name", ["1_results.db", "x.ncu-rep", "pmc_perf.csv"])
def test_what_is_no_file_is_refused_at_once_whatever_it_is_called(bench, soon, monkeypatch, kind, name):
    (bench.folder / "p").mkdir()
    monkeypatch.chdir(bench.folder / "p")  # the name of a socket must be short
    if kind == "pipe":
        os.mkfifo(name)
    elif kind == "folder":
        Path(name).mkdir()
    elif kind == "kernel":
        Path(name).symlink_to("/proc/kmsg")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    place = bench.folder / "p" / name
    for path in (place, place.parent):
        with pytest.raises(Problem):
            bench.load(path)
    with pytest.raises(BadInput):
        read_code(place)
    assert bench.is_clean()
