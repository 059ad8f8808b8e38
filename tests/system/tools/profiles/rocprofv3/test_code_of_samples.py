"""Samples of the program counter with the code objects around them, which an llvm-objdump disassembles."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from rooflens.analysis.base.problems import NotFound
from rooflens.tests.made.rocprofv3_samples import CODE_OBJECT, FMAC, SAMPLES, WAIT, At, as_json, as_rocpd
from rooflens.tests.support import objdump
from rooflens.tools.find_hotspots import find_hotspots

LOAD, SCALAR, SAXPY = 0x1D40, 0x1D48, 0x1C48
COLUMNS = 'dispatch_id, kernel, launch, "offset", instruction, source_file, source_line, stall_reason, issued, count'
ROWS = [
    (1, "dots", 1, WAIT, SAMPLES[0].text, "/src/lines.hip", 16, "memory", False, 700),
    (2, "dots", 2, WAIT, SAMPLES[0].text, "/src/lines.hip", 16, "memory", False, 200),
    (2, "dots", 2, FMAC, SAMPLES[2].text, "/src/lines.hip", 16, "issued", True, 60),
    (2, "dots", 2, 0x1D84, SAMPLES[3].text, "/src/lines.h", 7, "dependency", False, 40),
]


@objdump.needed
def test_a_called_function_belongs_to_the_kernel_that_the_launch_ran(bench: Any) -> None:
    """Launches were not traced, and the profile names no function that is no kernel."""
    called = [At(1, SAXPY, "", "", "WAITCNT", 9), At(2, WAIT, "", "", "WAITCNT", 2), At(2, SAXPY, "", "", "WAITCNT", 5)]
    file = as_json(bench.folder / "in" / "1_results.json", samples=called, uri="memory://1#offset=1")
    document = json.loads(file.read_text())
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"] = []
    file.write_text(json.dumps(document))
    shutil.copy(CODE_OBJECT, bench.folder / "in" / "app.hsaco")
    done = bench.load(bench.folder / "in")
    found = bench.rows(done, "samples", 'dispatch_id, kernel, "offset", count')
    assert sorted(found) == [(1, "saxpy", SAXPY, 9), (2, "dots", SAXPY, 5), (2, "dots", WAIT, 2)]


@objdump.needed
def test_code_objects_in_the_folder_tell_the_whole_kernel(bench: Any) -> None:
    as_json(bench.folder / "in" / "4711_results.json", uri="memory://4711#offset=0x60a6&size=9872")
    shutil.copy(CODE_OBJECT, bench.folder / "in" / "4711_code_object_id_1.out")
    done = bench.load(bench.folder / "in")
    assert bench.rows(done, "samples", COLUMNS) == ROWS
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


@objdump.needed
def test_a_database_without_instructions_asks_for_the_code_and_not_for_another_build(bench: Any) -> None:
    """As rocprofv3 writes it by default: addresses alone."""
    file = as_rocpd(bench.folder / "in" / "1_results.db")
    done = bench.load(file)
    assert any(note.startswith("100 % of the samples have an address but no instruction") for note in done.notes)
    said = [*done.notes, *done.warnings, *find_hotspots(bench.store).notes]
    assert not any("-gline-tables-only" in text for text in said) and any("only the address" in text for text in said)
    done = bench.load(file, code=str(CODE_OBJECT))
    assert not any("an address but no" in note for note in done.notes)
    reasons = bench.rows(done, "samples", "DISTINCT stall_reason, source_line", f'"offset" = {WAIT}')
    assert reasons == [("memory", 16)]


@objdump.needed
def test_the_program_that_the_caller_names_holds_the_code(bench: Any) -> None:
    file = as_json(bench.folder / "in" / "4711_results.json")
    done = bench.load(file, code=str(CODE_OBJECT))
    assert len(bench.rows(done, "instructions")) == 2 * 28
    script = bench.folder / "run.py"
    script.write_text("import torch")
    done = bench.load(file, code=str(script))
    assert any("run.py: This is not a GPU code object" in note for note in done.notes)
    with pytest.raises(NotFound):
        bench.load(file, code=str(bench.folder / "none"))


@objdump.needed
def test_another_build_is_told_by_an_instruction_that_differs(bench: Any) -> None:
    changed = [At(1, WAIT, "s_barrier", "", "BARRIER_WAIT", 5)]
    as_json(bench.folder / "in" / "4711_results.json", samples=changed)
    shutil.copy(CODE_OBJECT, bench.folder / "in" / "app.hsaco")
    done = bench.load(bench.folder / "in")
    assert len(bench.rows(done, "instructions")) == 1
    assert any("another build" in note and "s_barrier" in note for note in done.notes)


def test_many_files_that_are_no_code_are_told_in_few_words(bench: Any) -> None:
    as_json(bench.folder / "in" / "4711_results.json")
    for number in range(6):
        (bench.folder / "in" / f"{number}.hsaco").write_bytes(b"none")
    told = [note for note in bench.load(bench.folder / "in").notes if "hsaco" in note or "more files" in note]
    assert len(told) == 5 and told[-1].startswith("2 more files")
