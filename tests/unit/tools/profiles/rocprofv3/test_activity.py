"""What the host did, from every format that rocprofv3 writes: the same events, and those that the files hold."""

from __future__ import annotations

import csv
import itertools
import shutil

import pytest

from rooflens.tests.support.bench import Bench
from rooflens.tools.base.profile_files import is_inside

_HOST = "kind IN ('api', 'sync', 'alloc')"


def _table(folder, kind):
    (file,) = folder.glob(f"*_{kind}_trace.csv")
    with file.open() as rows:
        return list(csv.DictReader(rows))


@pytest.fixture(scope="module", params=["csv", "db"])
def traced(request, shared, tmp_path_factory):
    """A recording with everything traced, from one of its formats; and the folder of all."""
    folder = shared / "rocprofv3" / "sys_trace"
    bench = Bench(tmp_path_factory.mktemp("traced"))
    shutil.copytree(
        folder, bench.folder / "out", ignore=lambda _, names: [n for n in names if not n.endswith(request.param)]
    )
    return bench, bench.load(bench.folder / "out"), folder


def test_every_call_of_the_files_is_an_event_with_its_times(traced):
    bench, done, folder = traced
    calls = [r for kind in ("hip_api", "hsa_api") for r in _table(folder, kind)]
    expected = sorted(
        (r["Function"], int(r["Start_Timestamp"]), int(r["End_Timestamp"]), int(r["Correlation_Id"]), 10585)
        for r in calls
    )
    found = bench.rows(done, "events", "name, start_ns, end_ns, correlation, pid", _HOST)
    assert len(found) == 1021 and sorted(found) == expected
    times = bench.rows(done, "events", "event_id, start_ns, end_ns")
    assert [i for i, *_ in times] == list(range(1, 1034)), "numbered in the order of their start"
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(times))
    assert not done.warnings and bench.manifest(done).events == 1033


def test_copies_and_allocations_have_direction_device_and_size(traced):
    bench, done, folder = traced
    sized = 65536 if not any(f.suffix == ".csv" for f in (bench.folder / "out").iterdir()) else None
    copies = bench.rows(done, "events", "name, direction, device_id, bytes, pinned", "kind = 'copy'")
    assert copies == [("h2d", "h2d", 1, sized, None)] * 2 + [("d2h", "d2h", 1, sized, None)]
    made = bench.rows(done, "events", "correlation, bytes", "name = 'hsa_amd_memory_pool_allocate'")
    stated = {int(r["Correlation_Id"]): int(r["Allocation_Size"]) for r in _table(folder, "memory_allocation")}
    assert len(made) == 11 and dict(made) == {c: stated[c] for c, _ in made}


def test_device_work_goes_with_the_call_of_the_runtime_that_started_it(traced):
    bench, done, _ = traced
    calls = dict(bench.rows(done, "events", "correlation, name", _HOST))
    kernels = bench.rows(done, "events", "name, correlation", "kind = 'kernel'")
    assert len(kernels) == 9 and {calls[c] for _, c in kernels} == {"hipLaunchKernel"}
    assert {calls[c] for c in bench.column(done, "events", "correlation", "kind = 'copy'")} == {"hipMemcpy"}
    assert {name for name, _ in kernels} == set(bench.column(done, "dispatches", "kernel"))
    assert bench.rows(done, "events", "start_ns, end_ns, stream", "kind = 'kernel'") == sorted(
        bench.rows(done, "dispatches", "start_ns, end_ns, queue_id")
    )


def test_a_name_that_holds_a_nul_is_inside_of_nothing(tmp_path):
    assert is_inside(tmp_path, tmp_path) and not is_inside(tmp_path / "\0", tmp_path)
