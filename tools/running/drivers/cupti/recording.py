"""The run of a program for times only: the program itself, with the recorder in its environment."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ....base.profile_files import head
from ....profiles.cupti.records import TIMING as NAME
from ...job import Step
from .build import recorder

_UNSET = ("CUDA_INJECTION", "NVTX_INJECTION", "ROOFLENS_RECORD_")
_PYTHON = ("python", "pypy")
_SHEBANG = 512
_WORDS = 20


def times(command: Sequence[str], out: str, program_python: str | None = None, *, timeline: bool = False) -> Step:
    """The step ``timing``: every process of the command that uses CUDA leaves a file in its folder below ``out``; with
    ``timeline`` it holds calls, copies and fills too.

    Raises MissingTool where the recorder cannot be compiled here; ncu can measure times then. ``program_python`` is
    the interpreter of a Python program, as far as the command does not tell it.
    """
    built = recorder(program_python or python_of(command))
    return Step(
        NAME, tuple(command), env=built.environment(f"{out}/{NAME}", timeline=timeline), unset=_UNSET, durable=True
    )


def python_of(command: Sequence[str]) -> str | None:
    """The Python interpreter that a command runs: a word of it, as in ``mpirun -n 2 python3 train.py``, or that of the
    script that it is (torchrun); else None."""
    interpreter = next((word for word in command[:_WORDS] if Path(word).name.startswith(_PYTHON)), None)
    if interpreter and (path := shutil.which(interpreter)):
        return path
    script = shutil.which(command[0]) if command else None
    start = head(Path(script), _SHEBANG) if script else b""
    if not start.startswith(b"#!"):
        return None
    words = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [w for w in words[1:] if not w.startswith("-")][:1]
    return shutil.which(words[0]) if words and Path(words[0]).name.startswith(_PYTHON) else None
