"""The stand-in of CUPTI laid out as NVIDIA's packages, the recorder compiled with it, and a program to record."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rooflens.tests import ROOT
from rooflens.tools.running.drivers.cupti.build import Recorder, recorder

STANDIN = ROOT / "tests" / "standins" / "cupti"


def compiler() -> str:
    """A C compiler; the test is skipped where there is none."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("needs a C compiler")
    return found


def wheels(site: Path, folder: str = "cu13", version: int = 130000, name: str = "libcupti.so.13") -> Path:
    """Packages with the stand-in in ``site/nvidia/<folder>``, as NVIDIA's wheels lay them out; its library."""
    include, lib = site / "nvidia" / folder / "include", site / "nvidia" / folder / "lib"
    include.mkdir(parents=True)
    lib.mkdir()
    for header in (STANDIN / "include").iterdir():
        text = header.read_text()
        if header.name == "cupti_version.h":
            text = text.replace("#pragma once\n", f"#pragma once\n#define CUPTI_API_VERSION {version}\n")
        elif header.name == "cupti_activity.h":
            text = text.replace("#pragma once\n", '#pragma once\n#include "cupti_version.h"\n')
        (include / header.name).write_text(text)
    (include / "builtin_types.h").write_text("")
    library = lib / name
    argv = [compiler(), "-std=gnu11", "-shared", "-fPIC", f"-I{include}", str(STANDIN / "cupti.c"), "-o", str(library)]
    subprocess.run([*argv, f"-Wl,-soname,{name}", "-pthread", "-ldl"], check=True, capture_output=True)
    (include / "builtin_types.h").unlink()  # of the runtime's compiler package, which few have
    return library


class Kit:
    """The recorder compiled with a stand-in, and the program to record."""

    def __init__(self, folder: Path, version: int) -> None:
        self.library = wheels(folder / "site", version=version)
        self.program = folder / "program"
        argv = [compiler(), "-std=gnu11", "-g", str(STANDIN / "program.c"), "-o", str(self.program), str(self.library)]
        subprocess.run([*argv, f"-Wl,-rpath,{self.library.parent}", "-pthread"], check=True, capture_output=True)
        python = folder / "python"
        python.write_text(f"#!/bin/sh\necho {folder / 'site'}\n")
        python.chmod(0o755)
        self.recorder: Recorder = recorder(str(python), cache=folder / "cache")

    def environment(self, folder: Path, *, timeline: bool = False, stacks: bool = False, **more: str) -> dict[str, str]:
        """To record the program into ``folder``."""
        folder.mkdir(exist_ok=True)
        return {**os.environ, **self.recorder.environment(str(folder), timeline=timeline, stacks=stacks), **more}

    def run(
        self, folder: Path, launches: int = 5, how: str = "return", **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Record the program to its end."""
        argv = [str(self.program), str(launches), how]
        env = self.environment(folder, **more)
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="session")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Kit]:
    """``kits(130000)``: the kit for a version of CUPTI."""
    known: dict[int, Kit] = {}

    def kit(version: int) -> Kit:
        if version not in known:
            known[version] = Kit(tmp_path_factory.mktemp(f"cupti{version}"), version)
        return known[version]

    return kit


@pytest.fixture
def kit(kits: Callable[[int], Kit]) -> Kit:
    """The kit of CUDA 13."""
    return kits(130000)
