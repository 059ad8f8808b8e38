"""Samples of the program counter in the lists and comparisons of the tools, and files that no case can be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.tests.made.rocprofv3_samples import (
    CODE_OBJECT,
    FMAC,
    SAMPLES,
    WAIT,
    At,
    as_json,
)
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.profiles.parsing import spool


def test_samples_without_launches_are_compared_line_by_line(bench: Any) -> None:
    def taken(name: str, samples: Sequence[At]) -> str:
        file = as_json(bench.folder / f"{name}_results.json", samples=samples)
        document = json.loads(file.read_text())
        document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
        file.write_text(json.dumps(document))
        return str(bench.load(file).workload)

    after = [replace(one, count=100) if one.offset == WAIT else one for one in SAMPLES]
    found = compare_workloads(bench.store, taken("a", SAMPLES), taken("b", after))
    assert (found.verdict, found.same_work) == ("inconclusive", "unknown") and "faster" in found.answer
    assert found.kernels.rows == [["dots", 1000, 300]] and found.lines is not None
    verdicts = {row[0].partition(" ")[0]: row[-1] for row in found.lines.rows}
    assert verdicts == {"lines.hip:16": "lost", "lines.h:7": "gained"}


def test_lanes_are_the_bits_of_the_execution_mask(bench: Any) -> None:
    """Of all samples at the wait every lane was active, of those at the multiplication the upper half."""
    half = [replace(one, mask=0xFFFFFFFF << 32) if one.offset == FMAC else one for one in SAMPLES]
    bench.load(as_json(bench.folder / "1_results.json", samples=half))
    found = find_hotspots(bench.store, by="instruction").hotspots
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [row["lanes"] for row in rows] == [64, 32, 64]


def test_only_the_folder_is_looked_into_whatever_the_profile_names(bench: Any) -> None:
    done = bench.load(
        as_json(bench.folder / "in" / "4711_results.json", uri=f"file://{CODE_OBJECT}#offset=0&size=9872")
    )
    assert len(bench.rows(done, "instructions")) == 4  # of the two launches, what was sampled
    assert {c for (c,) in bench.rows(done, "samples", "code_object")} == {f"{CODE_OBJECT.name}#offset=0&size=9872"}
    outside = bench.folder / "in" / "link.hsaco"
    outside.symlink_to(CODE_OBJECT)
    assert len(bench.rows(bench.load(bench.folder / "in"), "instructions")) == 4


# -- damaged and hostile --------------------------------------------------------------------------------------------


def test_more_different_samples_than_fit_in_one_batch_are_all_read(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_BATCH", 2)
    file = as_json(bench.folder / "1_results.json", samples=[At(1, 4 * n, "s_nop 0", "", "NONE", 1) for n in range(7)])
    assert bench.column(bench.load(file), "samples", '"offset"') == [4 * n for n in range(7)]


def test_a_file_cut_anywhere_is_refused_in_words_or_read_as_far_as_it_says(bench: Any) -> None:
    whole = as_json(bench.folder / "1_results.json", samples=[At(1, WAIT, "s_nop 0", "", "WAITCNT", 3)]).read_text()
    for part in (8, 19):
        file = bench.folder / f"cut{part}_results.json"
        file.write_text(whole[: len(whole) * part // 20])
        with pytest.raises(Problem):
            bench.load(file)
