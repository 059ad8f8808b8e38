"""Find AMD GPU code in a file: a code object, a clang offload bundle (plain or compressed), or a host ELF with one.

Formats: LLVM documentation, Clang Offload Bundler. HIP keeps the bundles of a program in the section .hip_fatbin.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO
from struct import Struct

from ...analysis.base.problems import BadInput, LimitExceeded
from ...analysis.base.text import count_text
from .elf import MAGIC, Budget, Elf, FileWindow, open_elf

BUNDLE, COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_ENTRY = Struct("<QQQ")
_SIZES = {1: Struct("<I8x"), 2: Struct("<II8x"), 3: Struct("<QQ8x")}
"""By version of a compressed bundle: its own size (from version 2 on), the size unpacked, a hash that is ignored."""
_UNPACKED_LIMIT = 512 << 20
_ID_LIMIT = 1024
_PAGE = 4096
_ZLIB, _ZSTD = 0, 1


def code_objects(file: FileWindow, budget: Budget) -> Iterator[Elf]:
    """Yield every AMD GPU ELF in the file. BadInput for a file of an unknown kind."""
    start = file.first_bytes(len(BUNDLE))
    if start.startswith(MAGIC):
        yield from _elf_code_objects(open_elf(file), budget)
    elif start == BUNDLE or start.startswith(COMPRESSED):
        yield from _bundle_code_objects(file, budget)
    else:
        raise BadInput(
            "This is not a GPU code object",
            "it does not start like an ELF file or an offload bundle" if start else "it is empty",
            "Give an ELF file (.hsaco, .o, .so, executable) or an offload bundle that hipcc or clang wrote",
        )


def _elf_code_objects(elf: Elf, budget: Budget) -> Iterator[Elf]:
    if elf.machine == "EM_AMDGPU":
        budget.spend("objects", 1)
        yield elf
        return
    if elf.machine == "EM_CUDA":
        raise BadInput("This is NVIDIA code", "only AMD code objects can be read", "Give registers and LDS as numbers")
    fat = elf.sections_named(budget, b".hip_fatbin\0")
    if not fat:
        bitcode = elf.sections_named(budget, BUNDLE, b".llvm.offloading\0")
        raise BadInput(
            "This ELF file contains no AMD GPU code",
            "its GPU part is still LLVM bitcode (-fgpu-rdc)" if bitcode else "it has no section .hip_fatbin",
            "Give the linked program" if bitcode else "Give a file that hipcc or clang built for an AMD GPU",
        )
    for section in fat:
        yield from _bundle_code_objects(section, budget)


def _bundle_code_objects(window: FileWindow, budget: Budget) -> Iterator[Elf]:
    """Yield the code objects of consecutive bundles, each of which starts on a page boundary."""
    at = 0
    while at < window.size:
        rest = window.part(at, window.size - at)
        start = rest.first_bytes(len(BUNDLE))
        if start.startswith(COMPRESSED):
            used, content = _unpack(rest, budget)
            _, parts = _read_bundle(content, budget)
        elif start == BUNDLE:
            used, parts = _read_bundle(rest, budget)
        else:
            raise BadInput("The offload bundle is damaged", f"no bundle starts at byte {at:,} of {window.size:,}")
        for elf in (open_elf(part) for part in parts):
            if elf.machine == "EM_AMDGPU":
                yield from _elf_code_objects(elf, budget)
        at += _next_bundle(rest, used, budget)


def _read_bundle(window: FileWindow, budget: Budget) -> tuple[int, list[FileWindow]]:
    """Return the size of one bundle in bytes, and the ELF files for GPUs in it."""
    if window.first_bytes(len(BUNDLE)) != BUNDLE:
        raise BadInput("The offload bundle is damaged", "its compressed content is not a bundle")
    count = int.from_bytes(window.read_at(len(BUNDLE), 8), "little")
    budget.spend("headers", count)
    at, end = len(BUNDLE) + 8, 0
    parts: list[FileWindow] = []
    for _ in range(count):
        offset, size, length = _ENTRY.unpack(window.read_at(at, _ENTRY.size))
        if length > _ID_LIMIT:
            raise BadInput("The offload bundle is damaged", f"an entry has a name of {count_text(length, 'byte')}")
        host = window.read_at(at + _ENTRY.size, length).startswith(b"host")
        at += _ENTRY.size + length
        part, end = window.part(offset, size), max(end, offset + size)
        if not host and part.first_bytes(len(MAGIC)) == MAGIC:
            parts.append(part)
    return max(at, end), parts


def _unpack(window: FileWindow, budget: Budget) -> tuple[int, FileWindow]:
    """Return the size of a compressed bundle in bytes, and the unpacked bundle, which never exceeds its stated size."""
    import zstandard

    version, method = Struct("<HH").unpack(window.read_at(4, 4))
    if version not in _SIZES or method not in (_ZLIB, _ZSTD):
        raise BadInput(f"The bundle uses an unknown compression (version {version}, method {method})")
    head = 8 + _SIZES[version].size
    *whole, size = _SIZES[version].unpack(window.read_at(8, head - 8))
    if size > _UNPACKED_LIMIT:
        raise LimitExceeded(
            f"The compressed bundle unpacks to {count_text(size, 'byte')}", f"{_UNPACKED_LIMIT:,} are allowed"
        )
    budget.spend("unpacked_bytes", size)
    used = whole[0] if whole else _next_bundle(window, _PAGE, budget)
    if used < head:
        raise BadInput("The compressed bundle is damaged", f"it states a size of {count_text(used, 'byte')}")
    packed = window.part(head, used - head).read()
    try:
        # At most one byte more than stated, which shows that there is more.
        if method == _ZLIB:
            content = zlib.decompressobj().decompress(packed, size + 1)
        else:
            content = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed).read(size + 1)
    except (zlib.error, zstandard.ZstdError) as error:
        raise BadInput("The compressed bundle is damaged", str(error)) from error
    if len(content) != size:
        raise BadInput(
            "The compressed bundle is damaged", f"it does not unpack to the {count_text(size, 'byte')} that it states"
        )
    return used, FileWindow(BytesIO(content), 0, size)


def _next_bundle(window: FileWindow, used: int, budget: Budget) -> int:
    """Return the first page after ``used`` bytes on which a bundle starts, or the end."""
    for at in range(-(-used // _PAGE) * _PAGE, window.size, _PAGE):
        budget.spend("headers", 1)
        start = window.part(at, min(len(BUNDLE), window.size - at)).read()
        if start == BUNDLE or start.startswith(COMPRESSED):
            return at
    return window.size
