"""Figures from recorded counters: this reader and that of rocprof-compute agree where both can read the same run."""

from __future__ import annotations

import csv
import math
from statistics import median

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.tests.made.rocprofv3 import Launch, run
from rooflens.tests.support.figures import evaluate

COUNTS = ("SQ_WAVES", "GRBM_GUI_ACTIVE", "TCP_TOTAL_CACHE_ACCESSES_sum", "TCC_EA0_RDREQ_sum", "SQ_LEVEL_WAVES_ACCUM")


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


def test_metrics_agree_with_those_of_the_reader_of_rocprof_compute(bench, writer, shared):
    folder = shared / "workloads" / "vcopy" / "MI300X_A1_rocpd"
    theirs = bench.load(folder)
    ours = bench.load(writer.json("vcopy_results.json", recorded(folder / "pmc_perf.csv")))
    assert ours.dispatches == theirs.dispatches == 3 and ours.counters == theirs.counters
    assert bench.rows(ours, "counters", ", ".join(COUNTS)) == bench.rows(theirs, "counters", ", ".join(COUNTS))
    assert set(bench.column(ours, "counters", "SQ_WAVES")) == {16384.0}
    sysinfo, agent = bench.manifest(theirs).facts, bench.manifest(ours).facts
    assert {k: agent[k] for k in sysinfo} == sysinfo
    metrics = [m.name for m in catalog.metrics("gfx942") if m.per == "dispatch"]
    found = {
        done.workload: {f.name: f.value for f in evaluate(bench.store, bench.manifest(done), metrics, quartiles=False)}
        for done in (ours, theirs)
    }
    known = {name: value for name, value in found[theirs.workload].items() if value is not None}
    assert len(known) > 200
    differing = {
        name: (value, found[ours.workload][name])
        for name, value in known.items()
        if not math.isclose(value, found[ours.workload][name] or 0, rel_tol=1e-12)
    }
    assert not differing
