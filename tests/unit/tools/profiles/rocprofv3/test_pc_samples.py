"""Samples of the program counter: every format gives the same tables, with the code around them where it is there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, Writer, run
from rooflens.tests.made.rocprofv3_samples import (
    CODE_OBJECT,
    COLUMNS,
    FMAC,
    LAUNCHES,
    ROWS,
    SAMPLES,
    WAIT,
    At,
    as_csv,
    as_json,
    as_rocpd,
)
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.profiles.parsing import spool

# A wave that issued keeps what the file states as its reason.
RAW = [("dependency", "ALU_DEPENDENCY", 40), ("issued", "NONE", 60), ("memory", "WAITCNT", 900)]


def _raw_reasons(bench: Any, done: Any) -> list[Any]:
    counts: dict[Any, int] = {}
    for *reason, count in bench.rows(done, "samples", "stall_reason, stall_raw, count"):
        counts[tuple(reason)] = counts.get(tuple(reason), 0) + count
    return sorted((*reason, count) for reason, count in counts.items())


@pytest.mark.parametrize("kind", ["json", "rocpd"])
def test_json_and_rocpd_give_the_samples_of_each_launch_configuration(kind: str, bench: Any) -> None:
    file = bench.folder / "in" / ("1_results.json" if kind == "json" else "1_results.db")
    done = bench.load((as_json if kind == "json" else as_rocpd)(file))
    assert bench.rows(done, "samples", COLUMNS) == ROWS
    assert bench.manifest(done).samples == 1000
    assert _raw_reasons(bench, done) == RAW
    (inlined,) = bench.rows(done, "instructions", "inlined, class", 'inlined IS NOT NULL AND "offset" = 7556')
    assert inlined == ("at /src/lines.hip:17 > at /src/lines.h:10", "valu")


def test_samples_of_the_host_trap_alone_tell_no_reasons_launches_or_kernels(bench: Any) -> None:
    done = bench.load(as_csv(bench.folder / "whatever.csv", host_trap=True))
    told = find_hotspots(bench.store, kernel="#1").notes
    assert any(note.startswith("The samples contain no reasons") for note in told)
    assert (done.kernels, done.dispatches) == (None, None), "samples alone tell neither"
    columns, (row,) = (found := list_workloads(bench.store).table).columns, found.rows
    assert [row[columns.index(name)] for name in ("kernels", "dispatches")] == [None, None]


def test_a_database_without_samples_takes_them_from_the_csv_beside_it(bench: Any) -> None:
    write_rocpd(bench.folder / "in" / "4711_results.db", LAUNCHES)
    as_csv(bench.folder / "in" / "4711_pc_sampling_stochastic.csv")
    done = bench.load(bench.folder / "in")
    assert sum(n for (n,) in bench.rows(done, "samples", "count", "kernel = 'dots' AND launch IS NOT NULL")) == 1000


def test_samples_without_launches_are_listed_by_kernel(bench: Any) -> None:
    file = as_json(bench.folder / "1_results.json")
    document = json.loads(file.read_text())
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
    file.write_text(json.dumps(document))
    done = bench.load(file)
    assert (done.kernels, done.dispatches) == (1, None) and [call.tool for call in done.next] == ["find_hotspots"]
    listed = list_workloads(bench.store, done.workload)
    assert [dict(zip(listed.table.columns, row, strict=True)) for row in listed.table.rows] == [
        {"rank": 1, "kernel": "dots", "samples": 1000, "cycles": None, "pct": 100.0, "instructions": 3}
    ]
    assert [call.tool for call in listed.next] == ["find_hotspots"]
    assert list_workloads(bench.store, done.workload, by="launch").table.rows == listed.table.rows


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


@pytest.mark.parametrize("kind", ["json", "csv", "rocpd"])
def test_lanes_are_the_bits_of_the_execution_mask(kind: str, bench: Any) -> None:
    """Of all samples at the wait every lane was active, of those at the multiplication the upper half."""
    half = [replace(one, mask=0xFFFFFFFF << 32) if one.offset == FMAC else one for one in SAMPLES]
    if kind == "csv":
        as_csv(bench.folder / "in" / "4711_pc_sampling_stochastic.csv", half)
        Writer(bench.folder / "in").trace("4711", LAUNCHES)
    else:
        file = bench.folder / "in" / ("1_results.json" if kind == "json" else "1_results.db")
        (as_json(file, samples=half) if kind == "json" else as_rocpd(file, half))
    done = bench.load(bench.folder / "in")
    assert set(bench.rows(done, "samples", "lanes / count, stall_reason")) == {
        (64, "memory"), (32, "issued"), (64, "dependency"),
    }  # fmt: skip
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


def test_samples_of_another_run_belong_to_the_launches_that_it_repeats(bench: Any) -> None:
    Writer(bench.folder / "in" / "timing").trace("1", LAUNCHES)
    repeated = run(*reversed(LAUNCHES.launches), Launch("dots", grid=(64, 1, 1)), start=10**18)
    third = At(3, FMAC, SAMPLES[2].text, "", "NONE", 5)
    as_json(bench.folder / "in" / "pass_1" / "2_results.json", repeated, (*SAMPLES, third))
    done = bench.load(bench.folder / "in")
    # The order of the two launches is the other way round there; a second of one size counts with the first.
    found: Counter[tuple[int, int, int]] = Counter()
    for *place, count in bench.rows(done, "samples", 'dispatch_id, launch, "offset", count'):
        found[tuple(place)] += count
    assert found == {(1, 1, WAIT): 200, (1, 1, FMAC): 65, (1, 1, 0x1D84): 40, (2, 2, WAIT): 700}


# -- damaged and hostile --------------------------------------------------------------------------------------------


def test_more_different_samples_than_fit_in_one_batch_are_all_read(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_BATCH", 2)
    file = as_json(bench.folder / "1_results.json", samples=[At(1, 4 * n, "s_nop 0", "", "NONE", 1) for n in range(7)])
    assert bench.column(bench.load(file), "samples", '"offset"') == [4 * n for n in range(7)]


def test_a_file_cut_anywhere_is_refused_in_words_or_read_as_far_as_it_says(bench: Any) -> None:
    whole = as_json(bench.folder / "1_results.json", samples=[At(1, WAIT, "s_nop 0", "", "WAITCNT", 3)]).read_text()
    for part in range(1, 20):
        file = bench.folder / f"cut{part}_results.json"
        file.write_text(whole[: len(whole) * part // 20])
        with pytest.raises(Problem):
            bench.load(file)


def test_without_addresses_equal_instructions_of_two_lines_are_two(bench: Any, shared: Path) -> None:
    bench.load(shared / "pc_sampling" / "pc_sampling_stochastic_debug.csv")
    found = find_hotspots(bench.store, by="instruction", detail="full")
    rows = [dict(zip(found.hotspots.columns, row, strict=True)) for row in found.hotspots.rows]
    waits = [(r["line"].rpartition(":")[2], r["pct"]) for r in rows if r["instruction"] == "s_waitcnt vmcnt(0)"]
    assert waits[:3] == [("82", 21.6), ("133", 17.5), ("99", 13.4)]  # 21, 17 and 13 of 97
