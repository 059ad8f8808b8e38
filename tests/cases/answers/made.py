"""Profiles of formats of which no small real one is at hand: those of cases of the readers, and made ones."""

from __future__ import annotations

import shutil
from pathlib import Path

from rooflens.tests.cases.readers.case import FOLDER
from rooflens.tests.made.cupti import END, START, Recording

HEAD = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"
)
"""The first columns of a result of rocprofv2."""


def perf(folder: Path) -> Path:
    """The listing of a program on a CPU."""
    return Path(shutil.copy(FOLDER / "perf/the_published_listing_is_read_as_it_stands/profile/stat.txt", folder))


def nsys(folder: Path) -> Path:
    """An export of Nsight Systems with every kind of row."""
    case = FOLDER / "nsys/whole_graphs_mpi_and_the_work_of_the_profiler_itself_are_read"
    return Path(shutil.copy(case / "profile/report.sqlite", folder))


def perfetto(folder: Path) -> Path:
    """A step of a program as rocprof-sys records it."""
    case = FOLDER / "perfetto/a_trace_of_rocprof_sys_becomes_events_ranges_launches_and_samples"
    return Path(shutil.copy(case / "profile/run.pftrace", folder))


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
