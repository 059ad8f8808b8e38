"""Which kernels of a code object are meant: by file, GPU target, and name or number."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from ...analysis.base.name_patterns import matching
from ...analysis.base.problems import BadArgument, BadInput, NotFound, near
from ...analysis.base.text import names_displayed_as
from ...analysis.catalogue.targets import targets
from .kernels import CodeKernel, read

_RANK = re.compile(r"#(\d{1,9})")
_SIBLINGS = 2000
"""Files beside a missing one that are looked at for near names."""
GENERIC = "-generic"
"""How targets of generic code end, which runs on several GPUs."""


def select(path: str, gpu: str | None, kernel: str | None) -> tuple[str, list[CodeKernel]]:
    """The name of the file and its kernels for ``gpu`` (None: all) that ``kernel`` means, in the file's order.

    ``kernel`` is a name, a regular expression, or "#n" for the n-th. NotFound and BadArgument name what there is.
    """
    source = _existing(path)
    return source.name, _matching(_of_target(read(source), gpu, source.name), kernel, source.name)


def _of_target(kernels: list[CodeKernel], gpu: str | None, name: str) -> list[CodeKernel]:
    """The kernels for one GPU, or all; generic code counts for the GPU that the caller names."""
    if gpu is None:
        return kernels
    own = [k for k in kernels if gpu in (k.gpu, k.target)]
    own = own or [k for k in kernels if k.gpu.endswith(GENERIC) and gpu in targets()]
    if not own:
        has = ", ".join(sorted({k.target for k in kernels})[:20])
        raise BadArgument(f"{name} has no code for {gpu}", f"it has code for {has}", "Leave gpu out for all")
    return own


def _matching(kernels: list[CodeKernel], pattern: str | None, name: str) -> list[CodeKernel]:
    """The kernels meant by a name, a regular expression, or #n for the n-th."""
    if pattern is None:
        return kernels
    if rank := _RANK.fullmatch(pattern.strip()):
        number = int(rank[1])
        if not 1 <= number <= len(kernels):
            raise NotFound(f"There is no kernel {pattern}", f"{name!r} has #1 to #{len(kernels)}")
        return [kernels[number - 1]]
    if exact := names_displayed_as(pattern, [k.name for k in kernels]):
        return [k for k in kernels if k.name in exact]
    matches = set(matching(pattern, [k.name for k in kernels]))
    hits = [k for k in kernels if k.name in matches]
    if not hits:
        names = sorted({k.name for k in kernels})
        raise NotFound(
            f"No kernel of {name} matches {pattern!r}",
            near(pattern, names) or f"It has {', '.join(names[:5])}",
            "Names are as the linker sees them (mangled for C++); #1 works too",
        )
    return hits


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
