"""Kernels for compute_occupancy from an AMD code object: which file, which target, which kernels."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from ..analysis import catalog
from ..analysis.problems import BadArgument, BadInput, NotFound, near
from .codeobject.kernels import CodeKernel, read
from .occupancy_sources import Found, Subject

COMPILED = {
    "target": None,
    "max_workgroup_size": "work-items",
    "scratch_bytes": "bytes",
    "vgpr_spills": None,
    "sgpr_spills": None,
}
_RANK = re.compile(r"#(\d{1,9})")
_SIBLINGS = 2000
_GENERIC = "-generic"


def from_code_object(path: str, kernel: str | None, gpu: str | None, dynamic: int, size: int | None) -> Found:
    """The kernels of a code object in its order; ``size`` is the work-group size of the launch, where it is known."""
    source = _existing(path)
    kernels = _matching(_of_target(read(source), gpu, source.name), kernel, source.name)
    subjects = [
        Subject(
            gpu=gpu if gpu and k.gpu.endswith(_GENERIC) else k.gpu,
            vgprs=k.vgprs,
            agprs=k.agprs,
            sgprs=k.sgprs,
            lds_bytes=k.lds_bytes,
            dynamic_lds_bytes=dynamic,
            workgroup_size=size if size is not None else k.workgroup_size or k.max_workgroup_size,
            kernel=k.name,
            wave_size=k.wave_size,
            cu_mode=k.cu_mode,
            more={name: getattr(k, name) for name in COMPILED},
        )
        for k in kernels
    ]
    foreign = any(s.gpu not in catalog.targets() for s in subjects)
    notes = _about(kernels, size, dynamic)
    return Found(f"code object {source.name}", subjects, COMPILED, notes, informative=foreign)


def _about(kernels: list[CodeKernel], size: int | None, dynamic: int) -> list[str]:
    notes, every = [], len(kernels)
    if size is None and any(k.workgroup_size is None for k in kernels):
        notes.append(
            "workgroup_size is the most that a kernel was compiled for (1,024 if the source does not say); "
            "give the size of the launch where it is smaller."
        )
    if not dynamic:
        notes.append(
            "A code object states static LDS only; give dynamic_lds_bytes where the launch adds LDS "
            "(all LDS of Triton kernels is added so)."
        )
    if spilling := sum(bool(k.vgpr_spills or k.sgpr_spills) for k in kernels):
        notes.append(f"{spilling} of {every} kernels spill registers; VGPRs spilled to scratch cost memory traffic.")
    if any(k.dynamic_stack for k in kernels):
        notes.append("Kernels with a dynamic stack (recursion, calls through pointers) need more scratch than stated.")
    if small := sum(1 for k in kernels if size and size > k.max_workgroup_size):
        notes.append(f"{small} of {every} kernels were compiled for less than {size} work-items: such a launch fails.")
    return notes


def _of_target(kernels: list[CodeKernel], gpu: str | None, name: str) -> list[CodeKernel]:
    """The kernels for one GPU, or all; generic code counts for the GPU that the caller names."""
    if gpu is None:
        return kernels
    found = [k for k in kernels if gpu in (k.gpu, k.target)]
    found = found or [k for k in kernels if k.gpu.endswith(_GENERIC) and gpu in catalog.targets()]
    if not found:
        has = ", ".join(sorted({k.target for k in kernels})[:20])
        raise BadArgument(f"{name} has no code for {gpu}", f"it has code for {has}", "Leave gpu out for all")
    return found


def _matching(kernels: list[CodeKernel], pattern: str | None, name: str) -> list[CodeKernel]:
    """The kernels meant by a name, a regular expression, or #n for the n-th."""
    if pattern is None:
        return kernels
    if rank := _RANK.fullmatch(pattern.strip()):
        number = int(rank[1])
        if not 1 <= number <= len(kernels):
            raise NotFound(f"There is no kernel {pattern}", f"{name} has #1 to #{len(kernels)}")
        return [kernels[number - 1]]
    if exact := [k for k in kernels if k.name == pattern]:
        return exact
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise BadArgument(
            f"The kernel pattern {pattern!r} is no regular expression", str(error), "Escape it, or use #1"
        ) from error
    found = [k for k in kernels if compiled.search(k.name)]
    if not found:
        names = sorted({k.name for k in kernels})
        raise NotFound(
            f"No kernel of {name} matches {pattern!r}",
            near(pattern, names) or f"It has {', '.join(names[:5])}",
            "Names are as the linker sees them (mangled for C++); #1 works too",
        )
    return found


def _existing(path: str) -> Path:
    """A regular file; NotFound with near names where there is none."""
    try:
        source = Path(path).expanduser()
        if source.is_file():
            return source
        kind = "a folder" if source.is_dir() else "no regular file" if source.exists() else None
        beside = [p.name for p in islice(source.parent.iterdir(), _SIBLINGS)] if source.parent.is_dir() else []
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{path[:200]} cannot be read", getattr(error, "strerror", None) or str(error)) from error
    if kind:
        raise BadArgument(f"{path} is {kind}", fix="Give one .hsaco, .o, library or executable")
    raise NotFound(f"{path} does not exist", near(source.name, beside), "Give the path of a code object")
