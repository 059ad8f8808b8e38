"""Damaged and hostile input: a Problem or a named warning, in bounded time and memory, and nothing left behind."""

from __future__ import annotations

import gzip
import os
import random
import resource

import pytest

from rooflens.analysis.base.problems import BadInput, LimitExceeded, Problem
from rooflens.tests.made.rocprofv3 import Launch, repeated, run
from rooflens.tests.support.waiting import at_most
from rooflens.tools.base.untrusted_text import KERNEL_LIMIT

HEADER = b"Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,SQ_WAVES,Start_Timestamp,End_Timestamp\n"
ROW = b'0,"k(int, int)",2,1024,256,16,1000,2000\n'
GIB = 1 << 30


def refused(bench, content, match, kind=BadInput, name="pmc_perf.csv", seconds=20.0):
    """Import a folder whose main file is ``content``: refused in time, with advice, and without a trace."""
    folder = bench.folder / "w" / "MI200"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    bench.sysinfo("w/MI200")
    with at_most(seconds), pytest.raises(kind, match=match) as found:
        bench.load(folder)
    assert found.value.why or found.value.fix
    assert "duckdb" not in str(found.value).lower() and len(str(found.value)) < 800
    assert bench.is_clean()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"A" * (5 << 20), "first line is longer"),
        (b",".join(b"SQ_C_%d" % i for i in range(30_000)) + b"\n", "30,000 columns"),
        (HEADER + ROW + b"1," + b"k" * (3 << 20) + b",2,1024,256,16,1,2\n", "Line: 3"),
        (b"\x00" * 4096, "binary"),
    ],
    ids=["endless header", "too many columns", "endless row", "nul bytes"],
)
def test_what_is_no_csv_or_has_no_end_is_refused_with_a_reason(bench, content, match):
    refused(bench, content, match)


def test_kernel_names_of_absurd_length_are_cut_and_stay_apart(bench):
    names = ["k<" + "x" * 100_000 + f"{i}>" for i in range(3)]
    done = bench.load(bench.workload(SQ_WAVES=[16, 16, 16], Kernel_Name=names))
    found = bench.column(done, "dispatches", "kernel")
    assert done.kernels == 3 and max(map(len, found)) <= KERNEL_LIMIT


def test_hostile_text_in_sysinfo_is_shown_harmlessly(bench):
    folder = bench.workload(SQ_WAVES=[16])
    bench.sysinfo(
        "made/MI200", workload_name="a\x1b[2Jb\u202ec", command="x" * 5000, hostname="n\x00o", gpu_model="MI\n200"
    )
    manifest = bench.manifest(bench.load(folder))
    assert (manifest.name, manifest.host, manifest.device) == ("abc", "no", "MI 200")
    assert len(manifest.command) <= 500


def test_a_gigabyte_without_a_line_end_is_refused_at_once(bench):
    folder = bench.folder / "w"
    folder.mkdir()
    with (folder / "pmc_perf.csv").open("wb") as file:
        file.truncate(GIB)
    with at_most(3), pytest.raises(BadInput, match="binary"):
        bench.load(folder)
    assert bench.is_clean()


def test_a_gigabyte_in_the_second_line_is_refused_in_bounded_memory(bench):
    folder = bench.folder / "w"
    folder.mkdir()
    with (folder / "pmc_perf.csv").open("wb") as file:
        file.write(HEADER + ROW)
        file.truncate(GIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(10), pytest.raises(BadInput, match="line of more than 4 MiB"):
        bench.load(folder)
    assert bench.is_clean()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_megabytes_of_rubbish_are_refused_early(bench):
    refused(bench, HEADER + random.Random(1).randbytes(5 << 20), "damaged|UTF-8", seconds=10)


def test_a_gzip_bomb_is_refused(bench, monkeypatch):
    monkeypatch.setattr("rooflens.tools.base.size_limits.GZIP_FREE", 24 << 20)
    packed = gzip.compress(HEADER + ROW * 1_000_000, 9)
    assert len(packed) < 300_000
    refused(bench, packed, "unpacks to more than 24 MiB", LimitExceeded, "pmc_perf.csv.gz", seconds=5)


def test_a_broken_gzip_stream_is_refused(bench):
    rows = b"".join(b'%d,"k",2,1024,256,%d,1000,2000\n' % (i, i * 7919 % 1000) for i in range(5000))
    packed = bytearray(gzip.compress(HEADER + rows))
    packed[4000:4064] = bytes(64)
    refused(bench, bytes(packed), "damaged|UTF-8", Problem, "pmc_perf.csv.gz")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_beside_counters_never_hang(bench, kind):
    folder = bench.workload(SQ_WAVES=[16])
    for name in ("sysinfo.csv", "roofline.csv", "profiling_config.yaml", "SQ_LEVEL_WAVES.csv"):
        (folder / name).unlink(missing_ok=True)
        if kind == "device":
            (folder / name).symlink_to("/dev/zero")
        elif name != "SQ_LEVEL_WAVES.csv":
            os.mkfifo(folder / name)
    with at_most(5):
        assert bench.load(folder).dispatches == 1
    if kind == "pipe":
        os.mkfifo(folder / "SQ_LEVEL_WAVES.csv")
        with at_most(5), pytest.raises(BadInput, match="not a regular file"):
            bench.load(folder)


def test_a_link_out_of_the_folder_is_not_followed(bench):
    folder = bench.workload(SQ_WAVES=[16])
    outside = bench.workload("elsewhere", "SQ_LEVEL_WAVES.csv", SQ_ACCUM_PREV_HIRES=[9])
    (folder / "SQ_LEVEL_WAVES.csv").symlink_to(outside / "SQ_LEVEL_WAVES.csv")
    done = bench.load(folder)
    assert bench.manifest(done).counters == ["SQ_WAVES"]
    assert any("SQ_LEVEL_WAVES.csv is a symbolic link" in w for w in done.warnings)


def test_a_linked_folder_outside_is_not_followed(bench):
    outside = bench.workload("elsewhere/MI200", SQ_WAVES=[16])
    (bench.folder / "root").mkdir()
    (bench.folder / "root" / "MI200").symlink_to(outside)
    with pytest.raises(BadInput, match="not a profile that rooflens recognises"):
        bench.load(bench.folder / "root")


def test_a_link_given_by_the_caller_is_followed_and_links_that_form_a_circle_end(bench):
    folder = bench.workload(SQ_WAVES=[16])
    (folder / "again").symlink_to(folder)
    (folder / "SQ_LEVEL_WAVES.csv").symlink_to("SQ_LEVEL_WAVES.csv")
    (bench.folder / "link").symlink_to(folder)
    assert bench.load(bench.folder / "link").dispatches == 1


def test_glob_characters_equals_signs_and_quotes_in_a_path_stand_for_themselves(bench):
    folder = bench.workload("user=o'neill[1]*?/MI200", SQ_WAVES=[16.0])
    bench.workload("user=o'neill1xx/MI200", SQ_WAVES=[99.0])
    done = bench.load(folder)
    assert bench.rows(done, "counters") == [(0, "vecCopy(double*, double*, int)", 10_000.0, 16.0)]


@pytest.fixture
def as_nobody(bench):
    """Give up root, which may read everything, for the time of a test."""
    if os.geteuid() != 0:
        yield
        return
    bench.folder.chmod(0o777)
    parents = [p for p in bench.folder.parents if p.stat().st_uid == 0 and not p.stat().st_mode & 0o001]
    for parent in parents:
        parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("hidden", ["SQ_LEVEL_WAVES.csv", ""])
def test_unreadable_files_and_folders_are_refused(bench, request, hidden):
    folder = bench.workload(SQ_WAVES=[16])
    bench.workload(file="SQ_LEVEL_WAVES.csv", SQ_ACCUM_PREV_HIRES=[9])
    (folder / hidden).chmod(0)
    request.getfixturevalue("as_nobody")
    try:
        with pytest.raises(BadInput, match="cannot be read"):
            bench.load(folder)
    finally:
        if os.geteuid() != 0 and os.getuid() == 0:
            os.seteuid(0)
        (folder / hidden).chmod(0o755)
    assert bench.is_clean()


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
