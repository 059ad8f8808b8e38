"""Every form of perf stat gives the same runs: counts without modifiers, times in ns, NULL where nothing counted."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rooflens.analysis.base.problems import LimitExceeded

PUBLISHED = """
 Performance counter stats for './matrix-add -m 8192':

          3,691.58 msec task-clock:u              #    1.000 CPUs utilized
                 0      context-switches:u        #    0.000 /sec
                 0      cpu-migrations:u          #    0.000 /sec
             2,547      page-faults:u             #  689.949 /sec
    11,573,436,803      cycles:u                  #    3.135 GHz                      (83.32%)
       211,027,746      stalled-cycles-frontend:u #    1.82% frontend cycles idle     (83.32%)
         7,090,183      stalled-cycles-backend:u  #    0.06% backend cycles idle      (83.3%)
    11,355,480,740      instructions:u            #    0.98  insn per cycle
                                                  #    0.02  stalled cycles per insn  (83.32%)
     2,280,658,033      branches:u                #  617.801 M/sec                    (83.3%)
            27,428      branch-misses:u           #    0.00% of all branches          (83.3%)

       3.693409405 seconds time elapsed

       3.576172000 seconds user
       0.116005000 seconds sys
"""
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf of Linux")
EVENTS = "duration_time,task-clock,page-faults:u,cycles"


def test_a_huge_file_is_refused(bench):
    (bench.folder / "big.txt").write_text(PUBLISHED + "x" * (17 << 20))
    with pytest.raises(LimitExceeded, match="larger than 16 MiB"):
        bench.load(bench.folder / "big.txt")


@needs_perf
@pytest.mark.parametrize("form", [[], ["-x,"], ["-x;"], ["-j"], ["-r", "2"], ["-r", "2", "-x,"], ["-r", "2", "-j"]])
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
    (row,) = stored(bench, found)
    # On a busy machine perf takes its start time after the program has begun to sleep.
    assert 1e5 < row["duration_ns"] < 5e9 and row["duration_ns"] == row["duration_time"]
    assert 1e5 < row["task-clock"] < 1e9 and row["page-faults"] > 10
    assert ("duration_time:error_pct" in row) == ("-r" in form)
    assert row["kernel"] == ("real" if {"-x,", "-x;", "-j"} & set(form) else "sleep")
