"""The instructions of a part of an AMD code object, by LLVM's llvm-objdump where one is installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ..base.untrusted_text import plain_text
from ..device.machine.model import Roots
from ..device.machine.programs import find
from .isa import AmdInstruction

_ROCM = ("opt/rocm*/llvm/bin", "opt/rocm*/lib/llvm/bin")
_OTHERS = ("usr/lib/llvm-*/bin", "usr/local/llvm*/bin")
_NAME = "llvm-objdump"
_NEWEST, _OLDEST = 30, 15
"""Releases of LLVM that distributions install under a name with their number."""
_LINE = re.compile(
    r"\t(?P<text>\S.*?)\s*// (?P<offset>[0-9A-F]{8,16}): (?P<words>[0-9A-F]{8}(?: [0-9A-F]{8}){0,7})(?:\s|$)"
)
_WORD = 4
_TEXT_LIMIT = 200


def disassemblers(roots: Roots | None = None) -> list[Path]:
    """Every llvm-objdump: ROCm's own, those of the search path with a number in their name (newest first), then others.

    An old one may not know a new GPU, which only shows when it is asked; the next one is tried then. What is plainly
    called llvm-objdump is often the oldest of several.
    """
    roots = roots or Roots()
    outside = replace(roots, search="")
    numbered = (path for number in range(_NEWEST, _OLDEST, -1) for path in find(f"{_NAME}-{number}", roots))
    copies: dict[Path, Path] = {}
    for path in chain(find(_NAME, outside, _ROCM), numbered, find(_NAME, roots, _OTHERS)):
        copies.setdefault(path.resolve(), path)
    return list(copies.values())


def instructions(program: Path, file: Path, span: tuple[int, int], most: int) -> Iterator[AmdInstruction]:
    """The instructions at the addresses of ``span`` of a code object that is a file of our own, at most ``most``.

    Called in a child with limits, which the program inherits; nothing where it cannot read the file.
    """
    start, stop = span
    words = [str(program), "-d", f"--start-address={start:#x}", f"--stop-address={stop:#x}", str(file)]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env={"LC_ALL": "C"}
    )
    with process:
        assert process.stdout is not None
        for number, line in enumerate(_lines(process.stdout)):
            if number >= 2 * most:
                break
            if (match := _LINE.match(line)) and start <= (offset := int(match["offset"], 16)) < stop:
                size = _WORD * len(match["words"].split())
                yield AmdInstruction(offset, size, plain_text(match["text"], _TEXT_LIMIT))
        process.kill()


def _lines(pipe: object) -> Iterator[str]:
    read = pipe.readline  # type: ignore[attr-defined]
    while line := read(4096):
        yield line.decode("ascii", "replace")
