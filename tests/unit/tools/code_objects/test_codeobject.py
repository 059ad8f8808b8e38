"""Code objects: what the notes say is what we say, in every wrapping; damaged and hostile files end in clear errors."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import msgpack
import pytest
import zstandard

from rooflens.analysis.base.problems import BadInput, LimitExceeded, Problem
from rooflens.tests import DATA
from rooflens.tests.support.waiting import at_most
from rooflens.tools.code_objects.bundle import code_objects
from rooflens.tools.code_objects.elf import Budget, FileWindow
from rooflens.tools.code_objects.kernels import CodeKernel, read

OBJECTS = DATA / "code_objects"
HSACO, BUNDLE = OBJECTS / "kernels_gfx90a.hsaco", OBJECTS / "kernels_three_targets.ccob"


# -- files made by hand ---------------------------------------------------------------------------------------------


def elf(machine: int, sections: dict[str, tuple[int, bytes]], segment: str | None = None, flags: int = 0) -> bytes:
    """An ELF64 file of the given sections (name -> type, content), one of them also a PT_NOTE segment."""
    names = b"\0" + b"".join(n.encode() + b"\0" for n in [*sections, ".shstrtab"])
    parts = {**sections, ".shstrtab": (3, names)}
    at, body, headers = 64 + 56 * bool(segment), b"", [bytes(64)]
    places = {}
    for name, (kind, content) in parts.items():
        body += bytes(-(at + len(body)) % 16)
        places[name] = at + len(body)
        body += content
        where = (names.index(name.encode() + b"\0"), kind, 2, 0, places[name], len(content), 0, 0, 1, 0)
        headers.append(struct.pack("<IIQQQQIIQQ", *where))
    program = b""
    if segment:
        size = len(parts[segment][1])
        program = struct.pack("<IIQQQQQQ", 4, 4, places[segment], 0, 0, size, size, 4)
    start = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40" + bytes(8), 3, machine, 1, 0, 64 if segment else 0,
        at + len(body), flags, 64, 56, bool(segment), 64, len(headers), len(headers) - 1,
    )  # fmt: skip
    return start + program + body + b"".join(headers)


def note(owner: bytes, kind: int, content: bytes) -> bytes:
    name = owner + b"\0"
    pad = bytes(-len(name) % 4)
    return struct.pack("<III", len(name), len(content), kind) + name + pad + content + bytes(-len(content) % 4)


def kernel(name: str = "k", **entries: object) -> dict[str, object]:
    return {".name": name, ".vgpr_count": 8, ".sgpr_count": 16, ".group_segment_fixed_size": 0,
            ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 256, ".wavefront_size": 64,
            ".args": [{".size": 8}], **{f".{k}": v for k, v in entries.items()}}  # fmt: skip


def metadata(*kernels: object, target: str | None = "amdgcn-amd-amdhsa--gfx90a") -> bytes:
    named = {"amdhsa.target": target} if target else {}
    return note(
        b"AMDGPU", 32, bytes(msgpack.packb({"amdhsa.kernels": list(kernels), "amdhsa.version": [1, 2], **named}))
    )


def hsaco(*notes: bytes, flags: int = 0x3F) -> bytes:
    return elf(224, {".note": (7, b"".join(notes))}, segment=".note", flags=flags)


def bundle(*objects: bytes) -> bytes:
    """A clang offload bundle with a host entry and these code objects, each on a page."""
    names = [b"host-x86_64-unknown-linux-gnu-", *(b"hipv4-amdgcn-amd-amdhsa--gfx%d" % i for i, _ in enumerate(objects))]
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    at, body, entries = 4096, b"", b""
    for name, content in zip(names, [b"", *objects], strict=True):
        body += bytes(-len(body) % 4096)
        entries += struct.pack("<QQQ", at + len(body), len(content), len(name)) + name
        body += content
    return (head + entries).ljust(4096, b"\0") + body


def compressed(content: bytes, version: int, method: int = 1, size: int | None = None) -> bytes:
    packed = zlib.compress(content) if method == 0 else zstandard.compress(content)
    size = len(content) if size is None else size
    shape = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}[version]
    total = 8 + struct.calcsize(shape) + len(packed)
    fields = (size, 0) if version == 1 else (total, size, 0)
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(shape, *fields) + packed


def names(content: bytes, folder: Path) -> list[str]:
    path = folder / "file"
    path.write_bytes(content)
    return [k.name for k in read(path)]


# -- what is read ---------------------------------------------------------------------------------------------------


def by_name(kernels: Iterable[CodeKernel]) -> dict[str, CodeKernel]:
    return {k.name: k for k in kernels}


def test_the_shipped_code_object_says_what_its_source_asks_for() -> None:
    kernels = by_name(read(HSACO))
    assert list(kernels) == ["reverse", "wide", "spilling", "accumulating", "_Z5scaleILi3EEvPf"]
    assert {k.gpu for k in kernels.values()} == {"gfx90a"} == {k.target for k in kernels.values()}
    assert (kernels["reverse"].lds_bytes, kernels["reverse"].max_workgroup_size) == (4096, 256)
    assert (kernels["wide"].vgprs, kernels["wide"].sgprs, kernels["wide"].max_workgroup_size) == (100, 54, 1024)
    assert (kernels["spilling"].vgpr_spills, kernels["spilling"].scratch_bytes) == (26, 108)
    assert kernels["reverse"].vgpr_spills == kernels["reverse"].scratch_bytes == 0
    assert {k.wave_size for k in kernels.values()} == {64}


def test_agprs_are_not_counted_twice() -> None:
    """.vgpr_count of the note is 72 on gfx90a (30 VGPRs rounded up to 32, 40 AGPRs), 40 on gfx908 (the larger)."""
    kernels = read(BUNDLE)
    accumulating = [k for k in kernels if k.name == "accumulating"]
    assert len(kernels) == 15
    assert [(k.gpu, k.vgprs, k.agprs) for k in accumulating] == [
        ("gfx908", 40, 40), ("gfx90a", 32, 40), ("gfx942", 32, 40),
    ]  # fmt: skip


@pytest.mark.parametrize("wrap", ["plain", "bundle", "zstd1", "zstd2", "zstd3", "zlib2", "program", "packed program"])
def test_every_wrapping_gives_the_same_kernels(wrap: str, tmp_path: Path) -> None:
    first, second = hsaco(metadata(kernel("a"), kernel("b"))), hsaco(metadata(kernel("c")))
    both, packed = bundle(first, second), compressed(bundle(first), 1)
    pages = bundle(first).ljust(8192, b"\0") + bundle(second)
    packed_pages = packed.ljust(4096, b"\0") + compressed(bundle(second), 3)
    files = {
        "plain": hsaco(metadata(kernel("a"), kernel("b")), metadata(kernel("c"))),
        "bundle": both + bytes(9000),
        "zstd1": compressed(both, 1),
        "zstd2": compressed(both, 2),
        "zstd3": compressed(both, 3),
        "zlib2": compressed(both, 2, method=0),
        "program": elf(62, {".text": (1, b"x"), ".hip_fatbin": (1, pages)}),
        "packed program": elf(62, {".hip_fatbin": (1, packed_pages)}),
    }
    assert names(files[wrap], tmp_path) == ["a", "b", "c"]


def test_an_object_file_has_its_notes_in_a_section(tmp_path: Path) -> None:
    assert names(elf(224, {".note": (7, metadata(kernel("a")))}), tmp_path) == ["a"]


def test_an_object_of_version_3_takes_its_target_from_the_flags(tmp_path: Path) -> None:
    path = tmp_path / "v3.hsaco"
    path.write_bytes(hsaco(metadata(kernel(), target=None), flags=0x54C))
    assert read(path)[0].gpu == "gfx942"


def test_features_required_sizes_and_modes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "k.hsaco"
    entry = kernel(
        reqd_workgroup_size=[8, 8, 2], workgroup_processor_mode=0, wavefront_size=32, uses_dynamic_stack=True
    )
    path.write_bytes(hsaco(metadata(entry, target="amdgcn-amd-amdhsa--gfx1100:xnack-")))
    (found,) = read(path)
    assert (found.gpu, found.target, found.workgroup_size) == ("gfx1100", "gfx1100:xnack-", 128)
    assert found.cu_mode and found.dynamic_stack and found.wave_size == 32


# -- damaged and hostile files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "It is empty"),
        (b"int main() { return 0; }\n", "not a GPU code object.*hsaco"),
        (HSACO.read_bytes()[:40], "truncated"),
        (HSACO.read_bytes()[:700], "truncated"),
        (b"\x7fELF", "truncated"),
        (elf(62, {".text": (1, b"x")}), "no section .hip_fatbin"),
        (elf(62, {"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx90a": (1, b"BC")}), "-fgpu-rdc"),
        (elf(190, {".text": (1, b"x")}), "NVIDIA"),
        (elf(224, {".text": (1, b"x")}), "no kernel"),
        (hsaco(note(b"AMD", 10, b"---")), "version 2"),
        (hsaco(metadata(kernel(vgpr_count=-1))), "damaged"),
        (hsaco(metadata(kernel(vgpr_count="many"))), "damaged"),
        (hsaco(metadata(kernel(vgpr_count=1 << 60))), "damaged"),
        (hsaco(metadata(kernel(agpr_count=100))), "more AGPRs"),
        (hsaco(metadata({".vgpr_count": 8})), "damaged"),
        (hsaco(metadata(7)), "damaged"),
        (hsaco(note(b"AMDGPU", 32, b"\xc1" * 40)), "damaged"),
        (hsaco(note(b"AMDGPU", 32, b"\x81\xaeamdhsa.kernels\x91\x81\xa5.name" + b"\x91" * 90_000)), "damaged"),
        (elf(62, {".hip_fatbin": (1, b"")}), "no kernel"),
        (elf(62, {".hip_fatbin": (1, bytes(64))}), "No bundle starts"),
        (bundle(hsaco(metadata(kernel())))[:4200], "truncated"),
        (compressed(bundle(hsaco(metadata(kernel()))), 3)[:60], "truncated"),
        (compressed(b"nothing", 3), "not a bundle"),
        (compressed(bundle(), 3, size=4097), "does not unpack"),
        (b"CCOB" + struct.pack("<HH", 9, 1) + bytes(64), "unknown compression"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 1, 1 << 62, 64, 0) + bytes(64), "truncated"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 1, 8, 64, 0) + bytes(64), "states a size of 8"),
    ],
)  # fmt: skip
def test_what_is_no_code_object_is_refused_in_words(content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=says):
        names(content, tmp_path)


def _many_sections() -> bytes:
    content = bytearray(elf(62, {".hip_fatbin": (1, b"x")}))
    struct.pack_into("<H", content, 60, 0)
    struct.pack_into("<Q", content, int.from_bytes(content[40:48], "little") + 32, 1 << 40)
    return bytes(content)


BOMBS = {
    "sections": _many_sections,
    "bundle entries": lambda: b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1 << 60) + bytes(64),
    "unpacked size": lambda: b"CCOB" + struct.pack("<HHQQQ", 3, 1, 96, 1 << 40, 0) + bytes(64),
    "zstd": lambda: compressed(bytes(20 << 20), 3, size=64),
    "zlib": lambda: compressed(bytes(20 << 20), 2, method=0, size=64),
    "kernels": lambda: hsaco(note(b"AMDGPU", 32, b"\x81\xaeamdhsa.kernels\xdd\xff\xff\xff\xff")),
    "empty kernels": lambda: hsaco(
        note(b"AMDGPU", 32, b"\x81\xaeamdhsa.kernels\xdd\x00\x10\x00\x00" + b"\x80" * (1 << 20))
    ),
    "keys": lambda: hsaco(note(b"AMDGPU", 32, b"\x81\xaeamdhsa.kernels\x91\xdf\xff\xff\xff\xff" + b"\xa0" * 99)),
    "nested arrays": lambda: hsaco(
        note(b"AMDGPU", 32, b"\x81\xaeamdhsa.kernels\x91\x81\xa5.name" + b"\xdd\x00\xff\xff\xff" * 999)
    ),
    "notes": lambda: elf(224, {f".note{i}": (7, metadata(kernel())) for i in range(3)}).replace(
        struct.pack("<Q", len(metadata(kernel()))), struct.pack("<Q", 1 << 34)
    ),
}
"""Each made where it is used, because packing takes time."""


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_quickly_in_a_clear_error(name: str, tmp_path: Path) -> None:
    content = BOMBS[name]()
    with at_most(2), pytest.raises((BadInput, LimitExceeded)):
        names(content, tmp_path)


def test_programs_within_programs_are_not_followed(tmp_path: Path) -> None:
    content = hsaco(metadata(kernel()))
    for _ in range(40):
        content = elf(62, {".hip_fatbin": (1, bundle(content))})
    with pytest.raises(BadInput, match="no kernel"):
        names(content, tmp_path)


def test_overlapping_code_objects_run_out_of_budget() -> None:
    """Entries of one bundle that all name the same code object."""
    content = hsaco(metadata(kernel()))
    entries = b"".join(struct.pack("<QQQ", 1 << 16, len(content), 1) + b"x" for _ in range(101))
    file = (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 101) + entries).ljust(1 << 16, b"\0") + content
    with pytest.raises(LimitExceeded, match="objects"):
        list(code_objects(FileWindow(BytesIO(file), 0, len(file)), Budget(objects=100)))


def test_flipped_and_missing_bytes_never_escape_as_another_error(tmp_path: Path) -> None:
    rng, path = random.Random(1), tmp_path / "file"
    plain = bundle(hsaco(metadata(kernel("a"))), HSACO.read_bytes())
    sources = [HSACO.read_bytes(), BUNDLE.read_bytes(), plain, elf(62, {".text": (1, b"x"), ".hip_fatbin": (1, plain)})]
    for _ in range(25):
        content = bytearray(rng.choice(sources))
        if rng.random() < 0.2:
            del content[rng.randrange(len(content)) :]
        for _ in range(rng.choice((0, 1, 2, 8))):
            width = rng.choice((1, 2, 4, 8))
            at = rng.randrange(min(len(content), rng.choice((300, 1 << 20))) + 1)
            content[at : at + width] = rng.choice((bytes(width), b"\xff" * width, rng.randbytes(width)))
        path.write_bytes(content)
        try:
            read(path)
        except Problem as problem:
            assert len(problem.text) < 600
