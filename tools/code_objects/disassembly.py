"""Disassemble a part of an AMD code object with LLVM's llvm-objdump, if one is installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError

from ...analysis.base.problems import BadInput, LimitExceeded
from ...analysis.base.text import count_text
from ..base.untrusted_text import KERNEL_LIMIT, plain_text
from ..device.machine.model import Roots
from ..device.machine.programs import find
from .isa import AmdInstruction

_ROCM = ("opt/rocm*/llvm/bin", "opt/rocm*/lib/llvm/bin")
_OTHERS = ("usr/lib/llvm-*/bin", "usr/local/llvm*/bin")
_NAME = "llvm-objdump"
_NEWEST, _OLDEST = 30, 15
"""Range of LLVM releases that distributions install under a name with their number."""
_LINE = re.compile(
    r"\t(?P<text>\S.*?)\s*// (?P<offset>[0-9A-F]{8,16}): (?P<words>[0-9A-F]{8}(?: [0-9A-F]{8}){0,7})(?:\s|$)"
)
_WORD = 4
_TEXT_LIMIT = 200


def disassemblers(roots: Roots | None = None) -> list[Path]:
    """Return every llvm-objdump: that of ROCm, those with a number in their name (newest first), then others.

    An old version may not support a new GPU, which only shows when it is run; the next one is tried then. The program
    named plain llvm-objdump is often the oldest of several.
    """
    roots = roots or Roots()
    outside = replace(roots, search="")
    numbered = (path for number in range(_NEWEST, _OLDEST, -1) for path in find(f"{_NAME}-{number}", roots))
    copies: dict[Path, Path] = {}
    for path in chain(find(_NAME, outside, _ROCM), numbered, find(_NAME, roots, _OTHERS)):
        copies.setdefault(path.resolve(), path)
    return list(copies.values())


def instructions(program: Path, file: Path, span: tuple[int, int], most: int) -> Iterator[AmdInstruction]:
    """Yield at most ``most`` instructions at the addresses of ``span`` in a code object file that rooflens wrote.

    Must be called in a child process with limits, which the program inherits. Yields nothing if the program cannot
    read the file.
    """
    start, stop = span
    words = [str(program), "-d", f"--start-address={start:#x}", f"--stop-address={stop:#x}", str(file)]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env={"LC_ALL": "C"}
    )
    with process:
        assert process.stdout is not None
        for line in islice(iter(partial(process.stdout.readline, 4096), b""), 2 * most):
            match = _LINE.match(line.decode("ascii", "replace"))
            if match and start <= (offset := int(match["offset"], 16)) < stop:
                size = _WORD * len(match["words"].split())
                yield AmdInstruction(offset, size, plain_text(match["text"], _TEXT_LIMIT))
        process.kill()


_TABLES = (".symtab", ".dynsym")
_MOST = 300_000


@dataclass(frozen=True)
class Function:
    """A function: its linker name, its first address and the address after its last."""

    name: str
    span: tuple[int, int]


def functions(file: Any) -> list[Function]:
    """Return the functions of an ELF file by address; BadInput if its symbols are damaged."""
    names_by_span: dict[tuple[int, int], str] = {}
    try:
        for table in (file.get_section_by_name(name) for name in _TABLES):
            if table is None:
                continue
            if (count := table.num_symbols()) > _MOST:
                raise LimitExceeded(
                    f"The code object has {count_text(count, 'symbol')}", f"at most {_MOST:,} can be read"
                )
            for symbol in table.iter_symbols():
                start, size = symbol["st_value"], symbol["st_size"]
                if symbol["st_info"]["type"] == "STT_FUNC" and size:
                    names_by_span.setdefault((start, start + size), plain_text(symbol.name, KERNEL_LIMIT))
    except (ELFError, KeyError, ValueError, AttributeError, TypeError, ZeroDivisionError) as error:
        raise BadInput("The symbols of the code object are damaged", plain_text(str(error), 160)) from error
    return [Function(name, span) for span, name in sorted(names_by_span.items())]
