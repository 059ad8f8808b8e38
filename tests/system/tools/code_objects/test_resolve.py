"""Addresses of a code object become instructions and source lines, as LLVM's own tools tell them."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from rooflens.analysis.base.problems import BadInput
from rooflens.tests import DATA
from rooflens.tests.support import objdump
from rooflens.tools.code_objects.disassembly import disassemblers
from rooflens.tools.code_objects.lines import InlineFrame, SourcePlace, locate
from rooflens.tools.code_objects.resolve import CodeQuery, DecodedInstruction, ResolvedCode, resolve_code
from rooflens.tools.device.machine.model import Roots

OBJECTS = DATA / "code_objects"
HSACO = OBJECTS / "lines_gfx942.hsaco"
SAXPY, DOTS, SCALED = "saxpy.kd", "dots.kd", "_ZN4deep6scaledIdEEvPT_S1_.kd"
WAIT, LOADS = 0x1D68, (0x1D40, 0x1D48)
CLANG, SYMBOLIZER = shutil.which("clang-22"), shutil.which("llvm-symbolizer-22")
DEVICE = ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--no-gpu-bundle-output", "-O2"]
DEVICE += ["-cuid=0123456789abcdef"]  # else a name made of the path, sometimes shorter, moves the code
needs_llvm = pytest.mark.skipif(not (CLANG and SYMBOLIZER), reason="needs apt-get install clang-22 lld-22 llvm-22")


def built(folder: Path, target: str, *options: str, source: Path = OBJECTS / "lines.hip") -> Path:
    out = folder / f"{target}.hsaco"
    subprocess.run([str(CLANG), *DEVICE, f"--offload-arch={target}", *options, str(source), "-o", str(out)], check=True)
    return out


def symbolized(path: Path, addresses: list[int]) -> dict[int, list[tuple[str, int]]]:
    """File and line of every level of inlining, innermost first, as LLVM tells them."""
    said = subprocess.run(
        [str(SYMBOLIZER), "-e", str(path), "-i", "--output-style=JSON", *map(hex, addresses)],
        capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    return {
        int(one["Address"], 16): [(f["FileName"].replace("/./", "/"), f["Line"]) for f in one["Symbol"]]
        for one in json.loads(said)
    }


def levels(place: SourcePlace) -> list[tuple[str, int]]:
    return [(place.file or "", place.line or 0), *((f.file or "", f.line or 0) for f in place.inlined)]


def test_lines_and_inlined_functions_of_the_shipped_code_object(tmp_path: Path) -> None:
    with HSACO.open("rb") as file:
        found = locate(ELFFile(file), [0x1C48, 0x1C5C, 0x1D84, 0x1D74, 0x221C, 0x10])
    assert found.places == {
        0x1C48: SourcePlace("/src/lines.hip", 8),
        0x1C5C: SourcePlace("/src/lines.h", 3, (InlineFrame("fused", "/src/lines.hip", 8),)),
        0x1D84: SourcePlace(
            "/src/lines.h",
            7,
            (InlineFrame("inner<3>", "/src/lines.h", 10), InlineFrame("outer<3>", "/src/lines.hip", 17)),
        ),
        0x1D74: SourcePlace("/src/lines.hip", None),
        0x221C: SourcePlace("/src/lines.hip", 22),
    }


@objdump.needed
def test_the_loop_of_a_kernel_and_the_loads_it_waits_for(tmp_path: Path) -> None:
    found = resolve_code(CodeQuery(HSACO, [WAIT], "gfx942", {DOTS: None}), tmp_path)
    assert found.missing == []
    assert {one.function for one in found.code.values()} == {"dots"}
    wait = found.code[WAIT]
    assert wait == DecodedInstruction(
        WAIT, "s_waitcnt vmcnt(0) lgkmcnt(0)", "wait", None, [*LOADS], "dots", None, wait.place
    )
    assert {found.code[load].place.line for load in LOADS} == {wait.place.line} == {16}
    assert [(o, one.target) for o, one in found.code.items() if one.target and one.target < o] == [(0x1D70, LOADS[0])]
    assert not list(tmp_path.iterdir())


@objdump.needed
def test_spills_are_told_by_the_notes_of_the_kernel_and_a_fixed_place_in_scratch(tmp_path: Path) -> None:
    # gfx90a reaches scratch through a buffer.
    found = resolve_code(CodeQuery(OBJECTS / "kernels_gfx90a.hsaco", [0x2108, 0x1900], "gfx90a"), tmp_path)
    spills = [one for one in found.code.values() if one.spill]
    assert {one.kind for one in spills} == {"scratch_load", "scratch_store"}
    assert {one.function for one in spills} == {"spilling"} and len(spills) > 30
    others = [one for one in found.code.values() if one.function == "spilling" and one.kind == "global_load"]
    assert len(others) == 64


@needs_llvm
@pytest.mark.parametrize(("target", "version"), [("gfx90a", 4), ("gfx1151", 5)])
def test_every_address_has_the_line_and_the_inlining_that_llvm_tells(target: str, version: int, tmp_path: Path) -> None:
    path = built(tmp_path, target, "-g", f"-gdwarf-{version}")
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".text")
        addresses = list(range(section["sh_addr"], section["sh_addr"] + section["sh_size"], 4))
        found = locate(ELFFile(file), addresses).places
    expected = symbolized(path, sorted(found))
    assert {a: levels(p) for a, p in found.items() if p.line} == {a: e for a, e in expected.items() if e[0][1]}
    assert len([p for p in found.values() if p.inlined]) >= 5


@needs_llvm
def test_line_tables_alone_and_a_path_far_too_long(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 200) / ("y" * 200) / ("z" * 200)
    folder.mkdir(parents=True)
    for name in ("lines.hip", "lines.h"):
        shutil.copy(OBJECTS / name, folder)
    path = built(tmp_path, "gfx942", "-gline-tables-only", source=folder / "lines.hip")
    with path.open("rb") as file:
        places = locate(ELFFile(file), [0x1C48, 0x1C5C]).places
    assert {p.line for p in places.values()} == {8, 3}
    assert {Path(str(p.file)).parent for p in places.values()} == {folder}
    assert places[0x1C5C].inlined == (InlineFrame("fused", str(folder / "lines.hip"), 8),)


@needs_llvm
def test_without_g_the_instructions_are_there_and_the_reason_for_no_lines(tmp_path: Path) -> None:
    found = resolve_code(CodeQuery(built(tmp_path, "gfx942"), [WAIT], "gfx942"), tmp_path)
    assert found.code and all(one.place == SourcePlace() for one in found.code.values())
    assert found.missing == ["gfx942.hsaco: it was built without -g: it has no line table"]


OLD = """#!/bin/sh
echo "llvm-objdump: error: can't find target: unable to get target for 'unknown--'" >&2
exit 1
"""
NEW = """#!/bin/sh
printf '\\ts_endpgm    // 000000001D68: BF810000 \\n'
"""


@pytest.fixture
def installed(tmp_path: Path) -> Roots:
    """A machine without any LLVM; its search path and folders are there to be filled."""
    (tmp_path / "bin").mkdir()
    return Roots(tmp_path, str(tmp_path / "bin"), None)


def install(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def disassembled(roots: Roots, folder: Path) -> ResolvedCode:
    (work := folder / "work").mkdir()
    return resolve_code(CodeQuery(HSACO, [WAIT], "gfx942", {DOTS: None}), work, disassemblers(roots))


def test_where_only_an_old_objdump_is_installed_the_reason_names_it_and_the_gpu(
    tmp_path: Path, installed: Roots
) -> None:
    old = install(tmp_path / "bin" / "llvm-objdump", OLD)
    found = disassembled(installed, tmp_path)
    assert found.code[WAIT] == DecodedInstruction(WAIT, "", None, None, (), "", None, SourcePlace("/src/lines.hip", 16))
    assert found.missing == [
        f"lines_gfx942.hsaco: no llvm-objdump here supports the instructions of gfx942 ({old}); a newer LLVM may"
    ]


def test_a_newer_objdump_is_used_beside_an_old_one_whatever_it_is_called(tmp_path: Path, installed: Roots) -> None:
    old = install(tmp_path / "bin" / "llvm-objdump", OLD)
    (tmp_path / "bin" / "llvm-objdump-16").symlink_to(old)
    new = install(tmp_path / "bin" / "llvm-objdump-22", NEW)
    assert disassemblers(installed) == [new, tmp_path / "bin" / "llvm-objdump-16"]
    found = disassembled(installed, tmp_path)
    assert found.missing == [] and found.code[WAIT].text == "s_endpgm"
    rocm = install(tmp_path / "opt" / "rocm-7.0" / "llvm" / "bin" / "llvm-objdump", NEW)
    assert disassemblers(installed)[0] == rocm


def test_without_llvm_the_lines_are_still_told(tmp_path: Path, installed: Roots) -> None:
    assert disassemblers(installed) == []
    found = disassembled(installed, tmp_path)
    assert found.code[WAIT] == DecodedInstruction(WAIT, "", None, None, (), "", None, SourcePlace("/src/lines.hip", 16))
    assert found.missing == ["no llvm-objdump is installed, so code objects were not disassembled"]


def test_another_build_of_the_kernels_is_not_taken_for_the_profiled_one(tmp_path: Path) -> None:
    assert resolve_code(CodeQuery(HSACO, [WAIT], None, {DOTS: 0x1D00}), tmp_path, programs=[]).code
    moved = resolve_code(CodeQuery(HSACO, [WAIT], None, {DOTS: 0x1E00}), tmp_path, programs=[])
    assert not moved.code and "another build" in moved.missing[0]
    other = resolve_code(CodeQuery(HSACO, [WAIT], None, {"gemm.kd": None}), tmp_path, programs=[])
    assert not other.code and "none of its 1 code objects" in other.missing[0]


def test_what_is_no_code_object_is_said_and_not_raised(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no code")
    cut = tmp_path / "cut.hsaco"
    cut.write_bytes(HSACO.read_bytes()[:3000])
    for path in (text, cut, tmp_path / "absent", tmp_path):
        found = resolve_code(CodeQuery(path, [WAIT]), tmp_path, programs=[])
        assert not found.code and len(found.missing) == 1


def test_damaged_dwarf_ends_in_words_and_costs_only_the_lines(tmp_path: Path) -> None:
    whole = HSACO.read_bytes()
    with HSACO.open("rb") as file:
        spans = {
            name: (section["sh_offset"], section["sh_size"])
            for name in (".debug_line", ".debug_info", ".debug_abbrev", ".debug_addr", ".debug_str_offsets")
            if (section := ELFFile(file).get_section_by_name(name))
        }
    assert len(spans) == 5
    for name, (start, size) in spans.items():
        for filler in (b"\xff", b"\0", b"\x80"):
            damaged = bytearray(whole)
            damaged[start : start + size] = filler * size
            path = tmp_path / f"{name}.hsaco"
            path.write_bytes(damaged)
            with path.open("rb") as file:
                try:
                    assert isinstance(locate(ELFFile(file), [WAIT]).places, dict)
                except BadInput as problem:
                    assert "DWARF" in problem.text


def _endless() -> bytes:
    """The shipped code object with a line table that announces 2**63 folders of no bytes each."""
    whole = bytearray(HSACO.read_bytes())
    with HSACO.open("rb") as file:
        start = ELFFile(file).get_section_by_name(".debug_line")["sh_offset"]
    # unit_length, version, address and segment size, header_length, five fields, then the lengths of 12 opcodes.
    formats = start + 4 + 2 + 2 + 4 + 6 + 12
    assert struct.unpack_from("<H", whole, start + 4)[0] == 5
    whole[formats : formats + 10] = b"\0" + b"\xff" * 8 + b"\x7f"
    return bytes(whole)


def test_a_table_of_countless_entries_costs_the_lines_and_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rooflens.tools.code_objects import resolve as module
    from rooflens.tools.isolation.limits import Limits

    monkeypatch.setattr(module, "_LIMITS", Limits(memory_bytes=300_000_000, cpu_s=1, file_bytes=1 << 20))
    path = tmp_path / "endless.hsaco"
    path.write_bytes(_endless())
    found = resolve_code(CodeQuery(path, [WAIT], "gfx942", {DOTS: None}), tmp_path)
    assert len(found.missing) >= 1
    assert bool(found.code) == objdump.known()
    assert all(one.place == SourcePlace() for one in found.code.values())
    assert [p.name for p in tmp_path.iterdir()] == ["endless.hsaco"]


def test_a_code_object_that_is_too_large_to_copy_is_refused_at_once(tmp_path: Path) -> None:
    large = tmp_path / "large.hsaco"
    shutil.copy(HSACO, large)
    with large.open("r+b") as file:
        file.truncate(5 << 30)  # takes no space
    found = resolve_code(CodeQuery(large, [WAIT], "gfx942"), tmp_path)
    assert found.code == {} and any("5,120 MiB" in reason for reason in found.missing)
