"""What the perf of this machine writes in every form is read."""

from __future__ import annotations

import shutil
import subprocess

import pytest

EVENTS = "duration_time,task-clock,page-faults:u,cycles"


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf of Linux")
@pytest.mark.parametrize("form", [[], ["-x;"], ["-r", "2", "-j"]])
def test_what_the_real_perf_writes_is_read(bench, form):
    file = bench.folder / "real.txt"
    done = subprocess.run(
        ["perf", "stat", *form, "-o", str(file), "-e", EVENTS, "sleep", "0.02"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"perf may not count here: {done.stderr[:80]}")
    found = bench.load(file)
    names = ["kernel", "duration_ns", *bench.manifest(found).counters]
    (values,) = bench.rows(found, "counters", ", ".join(f'"{name}"' for name in names))
    row = dict(zip(names, values, strict=True))
    # On a busy machine perf takes its start time after the program has begun to sleep.
    assert 1e5 < row["duration_ns"] < 5e9 and row["duration_ns"] == row["duration_time"]
    assert 1e5 < row["task-clock"] < 1e9 and row["page-faults"] > 10
    assert ("duration_time:error_pct" in row) == ("-r" in form)
    assert row["kernel"] == ("real" if {"-x;", "-j"} & set(form) else "sleep")
