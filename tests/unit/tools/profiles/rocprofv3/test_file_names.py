"""CSV files under names of the user's own are told by their headers."""

from __future__ import annotations

import gzip

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.rocprofv3 import Launch, repeated, run

RUN = run(*repeated(2, Launch("fill(float*)"), FETCH_SIZE=[64.0, 128.0]))


@pytest.mark.parametrize("version", ["1.0", "0.6", "0.4"])
def test_counters_are_told_by_their_header(bench, writer, version):
    file = writer.counters("4711", RUN, version, agents=False)
    done = bench.load(file.rename(file.with_name("rocprofv3_fetch_size.csv")))
    assert (done.format, done.name, done.dispatches, done.counters) == ("rocprofv3", "rocprofv3_fetch_size", 2, 1)
    assert bench.column(done, "counters", "FETCH_SIZE") == [64.0, 128.0]


@pytest.mark.parametrize("version", ["1.0", "0.6", "0.4"])
def test_a_trace_of_kernels_is_told_by_its_header(bench, writer, version):
    file = writer.trace("4711", RUN, version, agents=False)
    done = bench.load(file.rename(file.with_name("times.csv")))
    assert (done.format, done.dispatches, done.counters) == ("rocprofv3", 2, 0)
    assert bench.column(done, "dispatches", "duration_ns") == [1000.0, 1000.0]


def test_a_packed_file_and_a_folder_are_told_as_well(bench, writer):
    file = writer.counters("run/4711", RUN, agents=False)
    packed = file.with_name("sizes.csv.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    assert bench.load(packed).dispatches == bench.load(packed.parent).dispatches == 2


def test_other_columns_are_no_output_of_rocprofv3(bench, writer):
    file = writer.place("notes.csv")
    file.write_text('"Kernel_Name","Counter_Name","Counter_Value"\n"fill(float*)","FETCH_SIZE",64\n')
    with pytest.raises(BadInput, match="format"):
        bench.load(file)
