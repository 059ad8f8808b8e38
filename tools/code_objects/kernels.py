"""Read the kernels of AMD code objects: registers, LDS, scratch, spills and work-group sizes.

Source of the keys: LLVM documentation, AMDGPU usage guide, code object V3 to V6 metadata (a note in MessagePack).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from os import SEEK_END
from pathlib import Path
from typing import Any

import msgpack

from ...analysis.base.kernel_names import select_names
from ...analysis.base.problems import BadArgument, BadInput, NotFound, near
from ...analysis.base.text import count_text
from ...analysis.catalogue import targets
from ..base import progress
from ..base.profile_files import open_regular
from ..base.untrusted_text import KERNEL_LIMIT, plain_text
from .bundle import code_objects
from .elf import Budget, Elf, FileWindow

_METADATA_NOTE, _OLD_METADATA_NOTE = 32, 10
_NUMBER_LIMIT = 1 << 32
_CONTAINER_LIMIT = 64
_KEY_LIMIT = 256
_INTEGERS = {
    ".vgpr_count": "vgprs", ".agpr_count": "agprs", ".sgpr_count": "sgprs", ".vgpr_spill_count": "vgpr_spills",
    ".sgpr_spill_count": "sgpr_spills", ".group_segment_fixed_size": "lds_bytes",
    ".private_segment_fixed_size": "scratch_bytes", ".max_flat_workgroup_size": "max_workgroup_size",
    ".wavefront_size": "wave_size",
}  # fmt: skip
"""Keys of numbers in the notes, and the fields of a kernel that they fill."""
_MODE, _SIZE, _STACK = ".workgroup_processor_mode", ".reqd_workgroup_size", ".uses_dynamic_stack"
_WANTED = (".name", _SIZE, _STACK, _MODE, *_INTEGERS)


@dataclass(frozen=True)
class CodeKernel:
    """Compilation results of one kernel. Registers are per work-item (SGPRs per wave), LDS and scratch in bytes."""

    name: str
    gpu: str
    """The processor: gfx90a."""
    target: str
    """The processor with its features: gfx90a:sramecc+:xnack-."""
    vgprs: int
    """Architectural VGPRs. With AGPRs, .vgpr_count in the note is the total, from which they are subtracted here."""
    agprs: int
    sgprs: int
    lds_bytes: int
    """Static LDS of a work-group; dynamic LDS is decided at launch."""
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int
    max_workgroup_size: int
    """Maximum work-items that it was compiled for; 1,024 if the source does not say."""
    workgroup_size: int | None
    """The size that the source requires, if it does."""
    wave_size: int
    cu_mode: bool
    """Built with cumode for gfx10 and later."""
    dynamic_stack: bool


def read(path: Path) -> list[CodeKernel]:
    """Return the kernels of a .hsaco, .o, offload bundle, library or executable, for every GPU target in it.

    The file is untrusted: raises BadInput for a file that is not an AMD code object, truncated or damaged, and
    LimitExceeded for one that announces excessive sizes.
    """
    budget, kernels, objects = Budget(), [], 0
    with open_regular(path) as file:
        for elf in code_objects(FileWindow(file, 0, file.seek(0, SEEK_END)), budget):
            objects += 1
            progress.report(f"read {objects:,} code objects of {path.name}")
            kernels += kernels_of(elf, budget)
    if not kernels:
        why = f"{objects} code objects without kernels" if objects else "no code for an AMD GPU"
        raise BadInput(f"{plain_text(path.name)} contains no kernels", f"it has {why}")
    return kernels


def kernels_of(elf: Elf, budget: Budget) -> list[CodeKernel]:
    """Return the kernels of one code object, which has a note for every part that the linker put into it."""
    notes = list(elf.notes(budget))
    if any(owner == b"AMD" and kind == _OLD_METADATA_NOTE for owner, kind, _ in notes):
        raise BadInput("The code object has the old version 2 format", fix="Build it for version 4 or later")
    machines = {targets.gpu(name).elf_machine: name for name in targets.targets()}
    all_kernels = []
    for content in (c for owner, kind, c in notes if owner == b"AMDGPU" and kind == _METADATA_NOTE):
        try:
            stated_target, kernels = _unpack_metadata(content, budget)
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise _damaged_metadata(plain_text(str(error))) from error
        # Code objects V3 do not state their target; the flags of the ELF header do.
        machine = elf.flags & 0xFF
        target = stated_target or machines.get(machine, f"unknown (machine {machine:#x})")
        all_kernels += [_kernel(entries, target) for entries in kernels]
    return all_kernels


def _unpack_metadata(content: bytes, budget: Budget) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the target and the needed entries of every kernel; everything else is skipped without parsing."""
    reader = msgpack.Unpacker(
        max_buffer_size=len(content) + 1, max_array_len=_CONTAINER_LIMIT, max_map_len=_CONTAINER_LIMIT
    )
    reader.feed(content)
    target, kernels = None, []
    for key in _keys(reader):
        if key == "amdhsa.target":
            target = plain_text(str(reader.unpack())).rpartition("--")[2]
        elif key == "amdhsa.kernels":
            count = reader.read_array_header()
            budget.spend("kernels", count)
            kernels = [_entries(reader) for _ in range(count)]
        else:
            reader.skip()
    return target, kernels


def _entries(reader: Any) -> dict[str, Any]:
    entries = {}
    for key in _keys(reader):
        if key in _WANTED:
            entries[key] = reader.unpack()
        else:
            reader.skip()
    return entries


def _keys(reader: Any) -> Iterator[str]:
    """Yield the keys of the next map; the caller must read the value after each key."""
    count = reader.read_map_header()
    if count > _KEY_LIMIT:
        raise ValueError(f"a map of {count_text(count, 'entry')}")
    for _ in range(count):
        yield reader.unpack()


def _kernel(entries: dict[str, Any], target: str) -> CodeKernel:
    numbers = {field: entries.get(key, 0) for key, field in _INTEGERS.items()}
    size, mode = entries.get(_SIZE) or [], entries.get(_MODE, 1)
    every = [*numbers.values(), mode, *(size if isinstance(size, list) else [size])]
    whole = all(isinstance(n, int) and 0 <= n < _NUMBER_LIMIT for n in every)
    if not isinstance(entries.get(".name"), str) or not whole:
        raise _damaged_metadata("a name or a number in it is invalid")
    gpu = target.partition(":")[0]
    known = targets.find_target(gpu)
    numbers["vgprs"] -= numbers["agprs"] if known and known.agprs == "unified" else 0
    if numbers["vgprs"] < 0:
        raise _damaged_metadata("it counts more AGPRs than registers in total")
    return CodeKernel(
        name=plain_text(entries[".name"], KERNEL_LIMIT),
        gpu=gpu,
        target=target,
        workgroup_size=prod(size) if size else None,
        cu_mode=mode == 0,
        dynamic_stack=bool(entries.get(_STACK)),
        **numbers,
    )


def _damaged_metadata(why: str) -> BadInput:
    return BadInput("The kernel metadata of the code object is damaged", why, "Build or copy it again")


_RANK = re.compile(r"#(\d{1,9})")
_SIBLINGS = 2000
"""Maximum number of files next to a missing one that are searched for similar names."""
GENERIC = "-generic"
"""Suffix of targets of generic code, which runs on several GPUs."""


def select(path: str, gpu: str | None, kernel: str | None) -> tuple[str, list[CodeKernel]]:
    """Return the name of the file, and its kernels for ``gpu`` (None: all) that match ``kernel``, in file order.

    ``kernel`` is a name, a regular expression, or "#n" for the n-th. NotFound and BadArgument list what exists.
    """
    source = _existing(path)
    return source.name, _matching(_of_target(read(source), gpu, source.name), kernel, source.name)


def _of_target(kernels: list[CodeKernel], gpu: str | None, name: str) -> list[CodeKernel]:
    """Return the kernels for one GPU, or all; generic code counts for the GPU that the caller names."""
    if gpu is None:
        return kernels
    own = [k for k in kernels if gpu in (k.gpu, k.target)]
    own = own or [k for k in kernels if k.gpu.endswith(GENERIC) and gpu in targets.targets()]
    if not own:
        has = ", ".join(sorted({k.target for k in kernels})[:20])
        raise BadArgument(f"{name} has no code for {gpu}", f"it has code for {has}", "Omit gpu for all")
    return own


def _matching(kernels: list[CodeKernel], pattern: str | None, name: str) -> list[CodeKernel]:
    """Return the kernels that match a name, a regular expression, or #n for the n-th."""
    if pattern is None:
        return kernels
    if rank := _RANK.fullmatch(pattern.strip()):
        number = int(rank[1])
        if not 1 <= number <= len(kernels):
            raise NotFound(f"There is no kernel {pattern}", f"{name!r} has #1 to #{len(kernels)}")
        return [kernels[number - 1]]
    names = [k.name for k in kernels]
    matches = set(select_names(pattern, names))
    if not matches:
        known = sorted(set(names))
        raise NotFound(
            f"No kernel of {name} matches {pattern!r}",
            near(pattern, known) or f"It has {', '.join(known[:5])}",
            "Names are as the linker sees them (mangled for C++); #1 works too",
        )
    return [k for k in kernels if k.name in matches]


def _existing(path: str) -> Path:
    """Return a regular file; NotFound with similar names if it does not exist."""
    try:
        source = Path(path).expanduser()
        if source.is_file():
            return source
        kind = "a folder" if source.is_dir() else "not a regular file" if source.exists() else None
        beside = [p.name for p in islice(source.parent.iterdir(), _SIBLINGS)] if source.parent.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{path[:200]} cannot be read", getattr(error, "strerror", None) or str(error)) from error
    if kind:
        raise BadArgument(f"{path} is {kind}", fix="Give one .hsaco, .o, library or executable")
    raise NotFound(f"{path} does not exist", near(source.name, beside), "Give the path of a code object")
