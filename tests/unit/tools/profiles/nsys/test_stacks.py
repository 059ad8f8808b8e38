"""Stacks of the host in an export of Nsight Systems: of calls, of samples, and of waits in the C library."""

from __future__ import annotations

import sqlite3

from rooflens.tests.made.nsys import PID, STACKS, TABLES, THREAD, stacks


def functions(bench, done, number):
    return bench.column(done, "host_stacks", "function", f"stack = {number}")


def codes(bench, done):
    return {warning.code for warning in bench.manifest(done).warnings}


def test_a_call_has_the_stack_of_its_call_chain_with_the_outermost_frame_first(bench):
    done = bench.load(stacks(bench.folder / "report.sqlite"))
    ((name, number),) = bench.rows(done, "events", "name, stack", "stack IS NOT NULL")
    assert name == "cudaLaunchKernel"
    frames = bench.rows(done, "host_stacks", "depth, function, file, line, module", f"stack = {number}")
    assert frames == [(0, "main", None, None, "program"), (1, "forward", "/app/train.py", 12, None)]


def test_samples_that_follow_each_other_are_a_span_and_no_backtrace_is_no_frame(bench):
    done = bench.load(stacks(bench.folder / "report.sqlite"))
    rows = bench.rows(done, "host_samples", "start_ns, end_ns, pid, thread, samples, stack", "samples IS NOT NULL")
    assert [row[:5] for row in rows] == [(10_500, 12_500, PID, THREAD, 2), (12_500, 13_500, PID, THREAD, 1)]
    assert [functions(bench, done, row[5]) for row in rows] == [["main", "step"], ["main", "0x7f00"]]


def test_waits_end_in_the_function_of_the_c_library_and_those_inside_another_call_are_left_out(bench):
    done = bench.load(stacks(bench.folder / "report.sqlite"))
    rows = bench.rows(done, "host_samples", "start_ns, end_ns, stack", "samples IS NULL")
    assert [row[:2] for row in rows] == [(20_000, 30_000), (40_000, 50_000)]
    # The second has no chain, so it takes the stack of the sample before it.
    assert [functions(bench, done, row[2]) for row in rows] == [
        ["main", "poll"],
        ["main", "0x7f00", "pthread_cond_wait"],
    ]


def test_a_wait_long_after_the_last_sample_of_its_thread_has_only_its_function(bench):
    file = stacks(bench.folder / "report.sqlite")
    with sqlite3.connect(file) as con:
        con.execute("UPDATE OSRT_API SET start = 40000000, end = 40000100 WHERE start = 40000")
    con.close()
    done = bench.load(file)
    ((number,),) = bench.rows(done, "host_samples", "stack", "start_ns = 40000000")
    assert functions(bench, done, number) == ["pthread_cond_wait"]


def test_what_the_stacks_lack_is_said(bench):
    file = stacks(bench.folder / "report.sqlite", ("OSRT_API", "OSRT_CALLCHAINS", "CUDA_CALLCHAINS"))
    assert codes(bench, bench.load(file)) == {"host_functions_only", "host_processor_only"}
    assert codes(bench, bench.load(stacks(bench.folder / "all.sqlite"))) == set()


def test_an_export_without_stacks_has_none(bench):
    done = bench.load(stacks(bench.folder / "report.sqlite", tuple(STACKS)))
    assert bench.rows(done, "host_stacks") == [] and bench.rows(done, "host_samples") == []


def test_stacks_alone_are_a_profile(bench):
    activity = tuple(table for table in TABLES if table != "StringIds" and not table.startswith("TARGET"))
    done = bench.load(stacks(bench.folder / "report.sqlite", (*activity, "CUDA_CALLCHAINS")))
    assert bench.column(done, "host_samples", "start_ns") == [10_500, 12_500, 20_000, 40_000]


def test_files_and_lines_of_frames_are_read_if_a_version_has_columns_for_them(bench):
    file = stacks(bench.folder / "report.sqlite")
    with sqlite3.connect(file) as con:
        con.execute("ALTER TABLE SAMPLING_CALLCHAINS ADD COLUMN sourceFile INT")
        con.execute("ALTER TABLE SAMPLING_CALLCHAINS ADD COLUMN lineNumber INT")
        con.execute("INSERT INTO StringIds VALUES (50, '/app/step.cc')")
        con.execute("UPDATE SAMPLING_CALLCHAINS SET sourceFile = 50, lineNumber = 7 WHERE symbol = 31")
    con.close()
    done = bench.load(file)
    assert ("step", "/app/step.cc", 7) in bench.rows(done, "host_stacks", "function, file, line")
