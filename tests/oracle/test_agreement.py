"""This reader and that of rocprof-compute agree on counters and facts where both can read the same run."""

from __future__ import annotations

import csv
from statistics import median

from rooflens.tests.made.rocprofv3 import Launch, run


def recorded(file):
    """The recorded replays as one run: of every counter the last value, of every launch the median time."""
    values: dict[int, dict[str, list[float]]] = {}
    times: dict[int, list[int]] = {}
    kernels = {}
    with file.open() as handle:
        for row in csv.DictReader(handle):
            number = int(row["Dispatch_ID"])
            values.setdefault(number, {})[row["Counter_Name"]] = [float(row["Counter_Value"])]
            times.setdefault(number, []).append(int(row["End_Timestamp"]) - int(row["Start_Timestamp"]))
            kernels[number] = row
    return run(*(
        Launch(
            r["Kernel_Name"],
            (int(r["Grid_Size"]), 1, 1),
            (int(r["Workgroup_Size"]), 1, 1),
            device=int(r["GPU_ID"]) - 1,
            registers=(int(r["Arch_VGPR"]), int(r["Accum_VGPR"]), int(r["SGPR"])),
            duration=round(median(times[number])), counters=values[number],
        )
        for number, r in sorted(kernels.items())
    ))  # fmt: skip


def test_counters_and_facts_are_those_of_the_reader_of_rocprof_compute(bench, writer, shared):
    folder = shared / "workloads" / "vcopy" / "MI300X_A1_rocpd"
    theirs = bench.load(folder)
    ours = bench.load(writer.json("vcopy_results.json", recorded(folder / "pmc_perf.csv")))
    assert ours.dispatches == theirs.dispatches == 3
    names = bench.manifest(theirs).counters
    assert len(names) > 200 and sorted(bench.manifest(ours).counters) == sorted(names)
    columns = ", ".join(f'"{name}"' for name in names)
    assert bench.rows(ours, "counters", columns) == bench.rows(theirs, "counters", columns)
    sysinfo, agent = bench.manifest(theirs).facts, bench.manifest(ours).facts
    assert {k: agent[k] for k in sysinfo} == sysinfo
