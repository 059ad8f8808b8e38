"""Samples of the program counter: every format gives the same tables, with the code around them where it is there."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import NotFound, Problem
from rooflens.tests import DATA
from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, Writer, run
from rooflens.tests.made.rocprofv3_samples import (
    FMAC,
    LAUNCHES,
    SAMPLES,
    WAIT,
    At,
    as_csv,
    as_json,
    as_rocpd,
)
from rooflens.tests.support import objdump
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.profiles.parsing import spool

HSACO = DATA / "code_objects" / "lines_gfx942.hsaco"
LOAD, SCALAR, SAXPY = 0x1D40, 0x1D48, 0x1C48
COLUMNS = 'dispatch_id, kernel, launch, "offset", instruction, source_file, source_line, stall_reason, issued, count'


EXPECTED = [
    (1, "dots", 1, WAIT, SAMPLES[0].text, "/src/lines.hip", 16, "memory", False, 700),
    (2, "dots", 2, WAIT, SAMPLES[0].text, "/src/lines.hip", 16, "memory", False, 200),
    (2, "dots", 2, FMAC, SAMPLES[2].text, "/src/lines.hip", 16, "issued", True, 60),
    (2, "dots", 2, 0x1D84, SAMPLES[3].text, "/src/lines.h", 7, "dependency", False, 40),
]
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
    assert bench.rows(done, "samples", COLUMNS) == EXPECTED
    assert bench.manifest(done).samples == 1000
    assert _raw_reasons(bench, done) == RAW
    (inlined,) = bench.rows(done, "instructions", "inlined, class", 'inlined IS NOT NULL AND "offset" = 7556')
    assert inlined == ("at /src/lines.hip:17 > at /src/lines.h:10", "valu")


def test_csv_beside_a_trace_tells_the_kernels_and_no_addresses(bench: Any) -> None:
    as_csv(bench.folder / "in" / "4711_pc_sampling_stochastic.csv")
    Writer(bench.folder / "in").trace("4711", LAUNCHES)
    done = bench.load(bench.folder / "in")
    expected = [(*row[:3], None, *row[4:]) for row in EXPECTED]
    assert sorted(bench.rows(done, "samples", COLUMNS)) == sorted(expected)
    assert _raw_reasons(bench, done) == RAW
    assert done.dispatches == 2


def test_host_trap_has_no_reasons_and_a_renamed_file_is_known_by_its_head(bench: Any) -> None:
    done = bench.load(as_csv(bench.folder / "whatever.csv", host_trap=True))
    rows = bench.rows(done, "samples", "dispatch_id, kernel, stall_reason, issued, count")
    assert {row[2:4] for row in rows} == {(None, None)} and sum(row[4] for row in rows) == 1000
    assert any("--kernel-trace" in note for note in done.notes)
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


def test_samples_outside_any_launch_take_their_kernel_from_the_code_object(bench: Any) -> None:
    lost = [At(0, WAIT, "s_waitcnt vmcnt(0)", "", "WAITCNT", 3), At(0, 0x100, "s_nop 0", "", "WAITCNT", 2)]
    done = bench.load(as_json(bench.folder / "1_results.json", samples=lost))
    assert bench.rows(done, "samples", "kernel, count") == [("(no name)", 2), ("dots", 3)]


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


@objdump.needed
def test_a_called_function_belongs_to_the_kernel_that_the_launch_ran(bench: Any) -> None:
    """Launches were not traced, and the profile names no function that is no kernel."""
    called = [At(1, SAXPY, "", "", "WAITCNT", 9), At(2, WAIT, "", "", "WAITCNT", 2), At(2, SAXPY, "", "", "WAITCNT", 5)]
    file = as_json(bench.folder / "in" / "1_results.json", samples=called, uri="memory://1#offset=1")
    document = json.loads(file.read_text())
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
    file.write_text(json.dumps(document))
    shutil.copy(HSACO, bench.folder / "in" / "app.hsaco")
    done = bench.load(bench.folder / "in")
    found = bench.rows(done, "samples", 'dispatch_id, kernel, "offset", count')
    assert sorted(found) == [(1, "saxpy", SAXPY, 9), (2, "dots", SAXPY, 5), (2, "dots", WAIT, 2)]


@objdump.needed
def test_code_objects_in_the_folder_tell_the_whole_kernel(bench: Any) -> None:
    as_json(bench.folder / "in" / "4711_results.json", uri="memory://4711#offset=0x60a6&size=9872")
    shutil.copy(HSACO, bench.folder / "in" / "4711_code_object_id_1.out")
    done = bench.load(bench.folder / "in")
    assert bench.rows(done, "samples", COLUMNS) == EXPECTED
    code = bench.rows(done, "instructions", 'launch, "offset", class, source_line, target, waits_for')
    assert len(code) == 2 * 28
    assert (2, WAIT, "wait", 16, None, f"{LOAD},{SCALAR}") in code
    assert (1, 0x1D70, "branch", 15, LOAD, None) in code
    inlined = bench.rows(done, "instructions", "DISTINCT inlined", 'inlined IS NOT NULL AND "offset" = 7556')
    assert inlined == [("outer<3> at /src/lines.hip:17 > inner<3> at /src/lines.h:10",)]
    found = find_hotspots(bench.store)
    first = dict(zip(found.hotspots.columns, found.hotspots.rows[0], strict=True))
    assert first["line"] == "lines.hip:16" and first["loop"] == "L1" and first["inlined"] is None
    assert find_hotspots(bench.store, kernel="#1.2").samples == 300
    with pytest.raises(NotFound, match=r"#1\.1, #1\.2"):
        find_hotspots(bench.store, kernel="#1.7")
    rows = [dict(zip(found.hotspots.columns, row, strict=True)) for row in found.hotspots.rows]
    assert {row["line"]: row["inlined"] for row in rows}["lines.h:7"] == (
        "outer<3> at lines.hip:17 > inner<3> at lines.h:10"
    )


def test_only_the_folder_is_looked_into_whatever_the_profile_names(bench: Any) -> None:
    done = bench.load(as_json(bench.folder / "in" / "4711_results.json", uri=f"file://{HSACO}#offset=0&size=9872"))
    assert len(bench.rows(done, "instructions")) == 4  # of the two launches, what was sampled
    assert {c for (c,) in bench.rows(done, "samples", "code_object")} == {f"{HSACO.name}#offset=0&size=9872"}
    outside = bench.folder / "in" / "link.hsaco"
    outside.symlink_to(HSACO)
    assert len(bench.rows(bench.load(bench.folder / "in"), "instructions")) == 4


@objdump.needed
def test_a_database_without_instructions_asks_for_the_code_and_not_for_another_build(bench: Any) -> None:
    """As rocprofv3 writes it by default: addresses alone."""
    file = as_rocpd(bench.folder / "in" / "1_results.db", texts=False)
    done = bench.load(file)
    assert any(note.startswith("100 % of the samples have an address but no instruction") for note in done.notes)
    said = [*done.notes, *done.warnings, *find_hotspots(bench.store).notes]
    assert not any("-gline-tables-only" in text for text in said) and any("only the address" in text for text in said)
    done = bench.load(file, code=str(HSACO))
    assert not any("an address but no" in note for note in done.notes)
    reasons = bench.rows(done, "samples", "DISTINCT stall_reason, source_line", f'"offset" = {WAIT}')
    assert reasons == [("memory", 16)]


@objdump.needed
def test_the_program_that_the_caller_names_holds_the_code(bench: Any) -> None:
    file = as_json(bench.folder / "in" / "4711_results.json")
    done = bench.load(file, code=str(HSACO))
    assert len(bench.rows(done, "instructions")) == 2 * 28
    script = bench.folder / "run.py"
    script.write_text("import torch")
    done = bench.load(file, code=str(script))
    assert any("run.py: This is not a GPU code object" in note for note in done.notes)
    with pytest.raises(NotFound):
        bench.load(file, code=str(bench.folder / "none"))


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


@objdump.needed
def test_another_build_is_told_by_an_instruction_that_differs(bench: Any) -> None:
    changed = [At(1, WAIT, "s_barrier", "", "BARRIER_WAIT", 5)]
    as_json(bench.folder / "in" / "4711_results.json", samples=changed)
    shutil.copy(HSACO, bench.folder / "in" / "app.hsaco")
    done = bench.load(bench.folder / "in")
    assert len(bench.rows(done, "instructions")) == 1
    assert any("another build" in note and "s_barrier" in note for note in done.notes)


# -- damaged and hostile --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {"pc": {"code_object_id": -1, "code_object_offset": -5}, "dispatch_id": 1},
        {"pc": {"code_object_id": 2**200, "code_object_offset": 2**64}, "dispatch_id": 2**63},
        {"pc": {"code_object_id": "1", "code_object_offset": 1.5}, "dispatch_id": None, "wave_issued": "yes"},
        {"pc": [], "snapshot": "none", "wave_issued": float("nan")},
        {"snapshot": {"stall_reason": ["WAITCNT"]}},
        "record",
        None,
    ],
)
def test_records_of_wrong_types_are_samples_whose_place_is_not_known(record: object, bench: Any) -> None:
    file = as_json(bench.folder / "1_results.json")
    document = json.loads(file.read_text())
    (tool,) = document["rocprofiler-sdk-tool"]
    tool["buffer_records"]["pc_sample_stochastic"] = [{"record": record, "inst_index": 10**30}]
    tool["strings"]["pc_sample_comments"] = {"no": "list"}
    file.write_text(json.dumps(document))
    done = bench.load(file)
    ((offset, text, count),) = bench.rows(done, "samples", '"offset", instruction, count')
    assert (offset, text, count) == (None, None, 1)


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


def test_csv_without_a_launch_or_with_a_column_missing_is_refused(bench: Any) -> None:
    file = as_csv(bench.folder / "a_pc_sampling_host_trap.csv", host_trap=True)
    file.write_text(file.read_text() + '1,2,many,"s_nop 0","",3\n')
    with pytest.raises(Problem, match="have no launch"):
        bench.load(file)
    file.write_text('"Sample_Timestamp","Exec_Mask"\n1,2\n')
    with pytest.raises(Problem, match="no column"):
        bench.load(file)


def test_comments_that_are_no_places_give_no_lines_and_hidden_characters_are_gone(bench: Any) -> None:
    odd = [
        At(1, 4 * n, "s_nop\u202e 0", comment, "WAITCNT", 1)
        for n, comment in enumerate(
            ("nothing", "a.h:0", "b.h:-3", "c.h:99999999999", ":7", "d\u200b.h:5 -> ", "\x1b[31me.h:6")
        )
    ]
    done = bench.load(as_json(bench.folder / "1_results.json", samples=odd))
    rows = bench.rows(done, "samples", "instruction, source_file, source_line", "true")
    assert {row[0] for row in rows} == {"s_nop 0"}
    assert sorted((f, n) for _, f, n in rows if n) == [("d.h", 5), ("e.h", 6)]


def test_without_addresses_equal_instructions_of_two_lines_are_two(bench: Any, shared: Path) -> None:
    bench.load(shared / "pc_sampling" / "pc_sampling_stochastic_debug.csv")
    found = find_hotspots(bench.store, by="instruction", detail="full")
    rows = [dict(zip(found.hotspots.columns, row, strict=True)) for row in found.hotspots.rows]
    waits = [(r["line"].rpartition(":")[2], r["pct"]) for r in rows if r["instruction"] == "s_waitcnt vmcnt(0)"]
    assert waits[:3] == [("82", 21.6), ("133", 17.5), ("99", 13.4)]  # 21, 17 and 13 of 97


def test_many_files_that_are_no_code_are_told_in_few_words(bench: Any) -> None:
    as_json(bench.folder / "in" / "4711_results.json")
    for number in range(9):
        (bench.folder / "in" / f"{number}.hsaco").write_bytes(b"none")
    told = [note for note in bench.load(bench.folder / "in").notes if "hsaco" in note or "more files" in note]
    assert len(told) == 5 and told[-1].startswith("5 more files")
