"""The example program examples/kernels, built for an emulated device that needs no GPU."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from rooflens.tests import ROOT
from rooflens.tests.support import once

SOURCES = ROOT / "examples" / "kernels"
EMULATED = Path(__file__).resolve().parent / "emulated_hip"
OPTIONS = ("-std=c++20", "-O0", "-w", "-D__HIP_PLATFORM_AMD__", f"-I{EMULATED}")


@dataclass(frozen=True)
class Line:
    """One kernel of the program's table; `error` is None where nothing was compared."""

    n: int
    bytes: float
    level: str
    flop: float
    error: float | None
    check: str


@dataclass(frozen=True)
class Build:
    compiler: str
    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "kernels"

    def run(self, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *words], capture_output=True, text=True, timeout=300, env=environment, check=False
        )

    @property
    def sources(self) -> Path:
        """Where the sources are compiled: a copy, beside which a compiler may leave what it keeps of a header."""
        return self.folder / "source"

    def prepare(self) -> None:
        """Copy the sources, and have g++ parse the header of all of them once."""
        shutil.copytree(SOURCES, self.sources, dirs_exist_ok=True)
        if Path(self.compiler).name == "g++":
            header = self.sources / "kernels.h"
            self._call(*OPTIONS, "-x", "c++-header", str(header), "-o", f"{header}.gch")

    def rebuilt(self, source: Path, folder: Path) -> Build:
        """A copy of this build in `folder` in which `source` replaces the source file of the same name."""
        for built in self.folder.glob("*.o"):
            shutil.copy(built, folder)
        for header in self.sources.glob("*.h*"):
            (source.parent / header.name).symlink_to(header)
        changed = Build(self.compiler, folder)
        changed.compile(source)
        changed.link()
        return changed

    def compile(self, source: Path) -> None:
        self._call(*OPTIONS, "-x", "c++", "-c", str(source), "-o", str(self.folder / f"{source.stem}.o"))

    def link(self) -> None:
        self._call(*map(str, sorted(self.folder.glob("*.o"))), "-o", str(self.program))

    def _call(self, *words: str) -> None:
        done = subprocess.run([self.compiler, *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr


def lines(table: str) -> dict[str, Line]:
    """The program's table by kernel, without the kernels that were skipped."""
    found = {}
    for text in table.splitlines():
        words = text.split()
        if not text.startswith(("#", "kernel ")) and words[1] != "skipped:":
            error = None if words[8] == "-" else float(words[8])
            found[words[0]] = Line(
                int(words[1]), float(words[3]), words[4], float(words[6]), error, " ".join(words[9:])
            )
    return found


def stated(listing: str) -> dict[str, dict[str, str]]:
    """What --list says of each kernel: function, limit, n, bytes, flop."""
    kernels: dict[str, dict[str, str]] = {}
    for text in listing.splitlines():
        if text.startswith("  "):
            key, value = text.split(maxsplit=1)
            kernels[list(kernels)[-1]][key] = value
        else:
            kernels[text] = {}
    return kernels


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Build:
    compiler = next((found for name in ("g++", "clang++", "clang++-22") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("needs a C++20 compiler (g++ or clang++) to build the example for the emulated device")
    build = Build(compiler, once.common(tmp_path_factory) / "kernels")
    with once.making(build.folder) as missing:
        if missing:
            build.prepare()
            with ThreadPoolExecutor(2) as workers:
                list(workers.map(build.compile, sorted(build.sources.glob("*.cu"))))
            build.link()
    return build


@pytest.fixture(scope="session")
def table(emulated: Build) -> dict[str, Line]:
    """Every kernel at its small size, compared with the CPU."""
    done = emulated.run("all", "--small", "--check", "--repeat", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    return lines(done.stdout)


@pytest.fixture(scope="session")
def listed(emulated: Build) -> dict[str, dict[str, str]]:
    return stated(emulated.run("--list").stdout)
