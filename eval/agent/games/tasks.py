"""The tasks of the kernel game: their descriptions, the paths of their versions, and how to build and run them.

A task is a folder with task.toml, driver, slow and best version; or, as in KernelBench, a Python file with Model,
get_inputs and get_init_inputs, or a folder with such a file named reference.py.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "tasks"
ROUNDS = 6
"""Default number of rounds of a task."""
_LARGEST_MODULE = 1 << 20
_TORCH_TEXT = "Make `ModelNew` faster: the same result as `Model`, as a Python module that defines class ModelNew."


class NoTask(Exception):
    """A path without a task; the message says what was expected."""


@dataclass(frozen=True)
class Build:
    """Commands that compile the driver to ``driver.o``, once per task, and link it with a candidate to ``program``."""

    prepare: Callable[[Path], list[str]]
    link: Callable[[Path], Sequence[list[str]]]


@dataclass(frozen=True)
class Language:
    """A language: file names, names in code fences, and build commands; Python needs no build."""

    suffix: str
    fences: tuple[str, ...]
    build: Build | None = None
    driver: str = ""
    small_addresses: bool = False
    """Whether its programs work with a limit on address space; GPU runtimes do not."""


def _whole(tool: str, suffix: str, *options: str) -> Build:
    """A language whose compiler accepts both driver and candidate."""

    def prepare(driver: Path) -> list[str]:
        return [_tool(tool), *options, f"-I{FOLDER}", "-c", str(driver), "-o", "driver.o"]

    def link(driver: Path) -> Sequence[list[str]]:
        return [[_tool(tool), *options, f"candidate{suffix}", str(driver), "-o", "program"]]

    return Build(prepare, link)


def _c() -> Build:
    def prepare(driver: Path) -> list[str]:
        return [_tool("c++"), "-std=c++17", "-O1", f"-I{FOLDER}", "-c", str(driver), "-o", "driver.o"]

    def link(driver: Path) -> Sequence[list[str]]:
        compiled = [_tool("cc"), "-std=c11", "-O1", "-c", "candidate.c", "-o", "candidate.o"]
        return [compiled, [_tool("c++"), str(driver), "candidate.o", "-o", "program"]]

    return Build(prepare, link)


LANGUAGES = {
    "cuda": Language(
        ".cu", ("cuda", "cu", "cpp", "c++", ""), _whole("nvcc", ".cu", "-std=c++17", "-O3", "-arch=native"), "driver.cu"
    ),
    "hip": Language(
        ".hip", ("hip", "cpp", "c++", "cuda", ""), _whole("hipcc", ".hip", "-std=c++17", "-O3"), "driver.hip"
    ),
    "c": Language(".c", ("c", ""), _c(), "driver.cpp", small_addresses=True),
    "triton": Language(".py", ("python", "py", "")),
}


@dataclass(frozen=True)
class Task:
    """One kernel. ``slow`` is the initial version, ``best`` the best known one, or None.

    ``size`` is the --size for the driver, None for its default. ``reference`` is the PyTorch module of a task in
    Python; ``on_cpu``: it is computed on the CPU.
    """

    name: str
    language: str
    title: str
    text: str
    slow: Path
    best: Path | None = None
    entry: str | None = None
    rounds: int = ROUNDS
    size: int | None = None
    why: str | None = None
    reference: Path | None = None
    on_cpu: bool = False

    @property
    def speaks(self) -> Language:
        return LANGUAGES[self.language]

    @property
    def driver(self) -> Path:
        """The driver, which creates the inputs, checks and measures; except for Python, it is part of the program."""
        return self.slow.parent / self.speaks.driver

    def program(self, folder: Path, seed: int, repeat: int) -> list[str]:
        """The command that measures the version in ``folder``."""
        options = ["--seed", str(seed), "--repeat", str(repeat)]
        if self.reference is not None:
            place = ["--reference", "cpu" if self.on_cpu else "device"]
            files = [str(self.reference), str(folder / f"candidate{self.speaks.suffix}")]
            return [sys.executable, str(HERE / "torch_driver.py"), *files, *options, *place]
        size = ["--size", str(self.size)] if self.size else []
        return [str(folder / "program"), *options, *size]


def tasks(folder: Path = FOLDER) -> tuple[Task, ...]:
    """Find every task in a folder, or the one task that it is. Raises NoTask if there is none."""
    folder = folder.resolve()
    if not folder.exists():
        raise NoTask(f"{folder} is not there")
    inside = [folder] if folder.is_file() else [folder, *sorted(p for p in folder.rglob("*") if not _hidden(p, folder))]
    found = [task for path in inside if (task := _task(path)) is not None]
    if not found:
        raise NoTask(f"{folder}: neither task.toml nor a Python file with class Model and get_inputs was found")
    return tuple(found)


def _task(path: Path) -> Task | None:
    if path.is_dir():
        stated = path / "task.toml"
        if stated.is_file():
            try:
                return _own(path, tomllib.loads(stated.read_text(encoding="utf-8")))
            except (KeyError, TypeError, ValueError) as error:
                raise NoTask(f"{stated} does not have the structure of the included tasks: {error}") from error
        return _bench(path / "reference.py", path.name) if (path / "reference.py").is_file() else None
    # A reference.py is found together with its folder.
    return _bench(path, path.stem) if path.suffix == ".py" and path.name != "reference.py" else None


def _own(folder: Path, stated: dict[str, object]) -> Task:
    facts = dict(stated)
    suffix = LANGUAGES[str(facts["language"])].suffix
    for unused in ("limit", "small"):  # for readers and tests
        facts.pop(unused, None)
    reference = folder / "reference.py"
    return Task(
        name=folder.name,
        slow=folder / f"slow{suffix}",
        best=folder / f"best{suffix}",
        why=str(facts.pop("best")),
        reference=reference if reference.exists() else None,
        on_cpu=reference.exists(),
        **facts,  # type: ignore[arg-type]
    )


def _bench(path: Path, name: str) -> Task | None:
    if path.stat().st_size > _LARGEST_MODULE:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if "class Model(" not in text or "def get_inputs" not in text:
        return None
    return Task(name=name, language="triton", title=name, text=_TORCH_TEXT, slow=path, reference=path)


def _hidden(path: Path, below: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.relative_to(below).parts) or (
        path.is_file() and (path.parent / "task.toml").exists()
    )


def _tool(name: str) -> str:
    """The compiler from the variable with its name in capitals (NVCC, HIPCC, CC), else from PATH."""
    named = os.environ.get({"c++": "CXX"}.get(name, name.upper()))
    return named or shutil.which(name) or name
