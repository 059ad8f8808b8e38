"""Profiles of formats of which no small real one is at hand, written by the makers of other tests."""

from __future__ import annotations

from pathlib import Path

from rooflens.tests.made.cupti import END, START, Recording
from rooflens.tests.made.nsys import further
from rooflens.tests.made.perfetto import trace
from rooflens.tests.unit.tools.profiles.perf.test_read import PUBLISHED
from rooflens.tests.unit.tools.running.drivers.rocprof.test_v2 import HEAD


def perf(folder: Path) -> Path:
    """The listing of a program on a CPU."""
    (folder / "stat.txt").write_text(PUBLISHED)
    return folder / "stat.txt"


def nsys(folder: Path) -> Path:
    """An export of Nsight Systems with every kind of row."""
    return further(folder / "report.sqlite")


def perfetto(folder: Path) -> Path:
    """A step of a program as rocprof-sys records it."""
    (folder / "run.pftrace").write_bytes(trace())
    return folder / "run.pftrace"


def cupti(folder: Path) -> Path:
    """Launches within two ranges, as our recorder writes them."""
    made = Recording().device().mark(10, 1, START, "step").launch(15).mark(20, 2, START, "forward").launch(25, name="b")
    return made.mark(30, 2, END).launch(35).mark(40, 1, END).put(folder / "node_100.record")


def rocprofv2(folder: Path) -> Path:
    """A run for times and one for counters."""
    for place, start, end, counter, value in (
        ("timing", 100, 150, "", ""),
        ("pass_1/pmc_1", 900, 990, ",SQ_WAVES", ",64"),
    ):
        (within := folder / "rooflens_run" / place).mkdir(parents=True)
        line = f'1,1,1,77,77,4096,64,0,0,8,0,16,64,"copy(float*, float*)",{start},{end},1{value}'
        (within / "results_77.csv").write_text(f"{HEAD}{counter}\n{line}\n")
    return folder / "rooflens_run"


PROFILES = (perf, nsys, perfetto, cupti, rocprofv2)
