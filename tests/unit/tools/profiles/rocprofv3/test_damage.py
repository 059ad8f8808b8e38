"""What no file of a case can be: large recordings and links out of the folder."""

from __future__ import annotations

import pytest

from rooflens.tests.made.rocprofv3 import Launch, repeated, run

RUN = run(*repeated(3, Launch("k(int, char)"), X_A=[1.0, 2.0, 3.0]))


@pytest.mark.parametrize("kind", ["json", "db"])
def test_a_recorded_api_trace_without_launches_is_a_timeline_of_the_host(bench, shared, kind):
    for file in (shared / "rocprofv3" / "hip_trace").glob(f"*.{kind}"):
        (bench.folder / "out").mkdir(exist_ok=True)
        (bench.folder / "out" / file.name).write_bytes(file.read_bytes())
    done = bench.load(bench.folder / "out")
    assert (done.dispatches, done.kernels, done.passes, bench.manifest(done).events) == (0, 0, 1, 49)
    assert not bench.rows(done, "dispatches") and set(bench.column(done, "events", "pid")) == {10552}


def test_links_out_of_the_folder_are_left_out(bench, writer):
    secret = writer.counters("secret/4711", RUN)
    writer.trace("out/1", RUN)
    (bench.folder / "out" / "4711_counter_collection.csv").symlink_to(secret)
    done = bench.load(bench.folder / "out")
    assert done.counters == 0 and any("is a symbolic link that points outside" in w for w in done.warnings)
