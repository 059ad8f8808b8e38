"""Where the recorder finds CUPTI, on folders laid out as wheels and toolkits, and what it is compiled into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.tests.support.cupti_kit import compiler, wheels
from rooflens.tools.running.drivers.cupti import build
from rooflens.tools.running.drivers.cupti.build import cupti_candidates, python_of, recorder


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def wheel(site: Path, name: str, library: str) -> Path:
    """The files of nvidia-cuda-cupti and nvidia-cuda-runtime that matter, in the layout of the release."""
    both = name.startswith("cu1")
    for header in ("cupti_activity.h", "cupti_version.h"):
        put(site / "nvidia" / name / "include" / header)
    put(site / "nvidia" / (name if both else "cuda_runtime") / "include" / "cuda.h")
    return put(site / "nvidia" / name / "lib" / library)


def toolkit(root: Path, library: str) -> Path:
    """A CUDA toolkit with CUPTI in extras/, as the installers lay it out."""
    put(root / "extras/CUPTI/include/cupti_activity.h")
    put(root / "include/cuda.h")
    return put(root / "extras/CUPTI/lib64" / library)


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch):
    """What this machine has plays no part."""
    monkeypatch.setitem(build._PLACES, "toolkits", [])
    monkeypatch.setattr(build, "_own_path", list)


@pytest.mark.parametrize(
    ("name", "library"),
    [("cu13", "libcupti.so.13"), ("cuda_cupti", "libcupti.so.12"), ("cuda_cupti", "libcupti.so.11.8")],
)
def test_the_programs_wheels_come_before_a_toolkit(tmp_path, name, library):
    mine = wheel(tmp_path / "site", name, library)
    theirs = toolkit(tmp_path / "cuda", "libcupti.so.12")
    first, *rest = cupti_candidates([tmp_path / "site"], {"CUDA_HOME": str(tmp_path / "cuda"), "PATH": ""})
    assert first.library == mine
    assert (first.include / "cupti_activity.h").is_file() and (first.cuda / "cuda.h").is_file()
    assert theirs in {c.library for c in rest}


@pytest.mark.parametrize(("cuda", "library"), [("12.8", "libcupti.so.12"), ("13.0", "libcupti.so.13")])
def test_of_two_releases_the_one_that_pytorch_loads_comes_first(tmp_path, cuda, library):
    wheel(tmp_path, "cu13", "libcupti.so.13")
    wheel(tmp_path, "cuda_cupti", "libcupti.so.12")
    put(tmp_path / "torch/version.py", f"__version__ = '2.9'\ncuda: Optional[str] = '{cuda}'\nhip = None\n")
    assert next(cupti_candidates([tmp_path], {"PATH": ""})).library.name == library


def test_without_pytorch_the_newest_release_comes_first(tmp_path):
    wheel(tmp_path, "cu13", "libcupti.so.13")
    wheel(tmp_path, "cuda_cupti", "libcupti.so.12")
    assert next(cupti_candidates([tmp_path], {"PATH": ""})).library.name == "libcupti.so.13"


def test_headers_may_come_from_triton_where_the_library_has_none(tmp_path):
    put(tmp_path / "torch/lib/libcupti-53ab12cd.so.11.8")
    for header in ("cupti_activity.h", "cuda.h"):
        put(tmp_path / "triton/backends/nvidia/include" / header)
    (only,) = cupti_candidates([tmp_path], {"PATH": ""})
    assert only.library.name == "libcupti-53ab12cd.so.11.8"
    assert only.include == only.cuda == tmp_path / "triton/backends/nvidia/include"


@pytest.mark.parametrize("lacking", ["cupti_activity.h", "cuda.h"])
def test_a_library_without_all_headers_is_passed_over(tmp_path, lacking):
    wheel(tmp_path, "cu13", "libcupti.so.13")
    (tmp_path / "nvidia/cu13/include" / lacking).unlink()
    assert not list(cupti_candidates([tmp_path], {"PATH": ""}))


def test_other_libraries_of_the_folder_are_not_taken(tmp_path):
    wheel(tmp_path, "cu13", "libcupti_static.so.13")
    assert not list(cupti_candidates([tmp_path], {"PATH": ""}))


def test_it_is_compiled_once_into_a_folder_of_the_users_own(tmp_path, kit):
    python = kit.library.parents[3].parent / "python"
    first = recorder(str(python), cache=tmp_path / "cache")
    before = first.path.stat()
    assert recorder(str(python), cache=tmp_path / "cache") == first
    assert first.path.stat().st_mtime_ns == before.st_mtime_ns
    assert before.st_mode & 0o777 == 0o500 and (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [first.path.name]
    assert first.library == kit.library.resolve()


def test_another_library_is_another_recorder(tmp_path, kit):
    python = kit.library.parents[3].parent / "python"
    one = recorder(str(python), cache=tmp_path / "cache")
    os.utime(kit.library, (1, 1))
    assert recorder(str(python), cache=tmp_path / "cache").path != one.path


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_is_refused(tmp_path, kit, mode):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with pytest.raises(MissingTool, match="others can write"):
        recorder(str(kit.library.parents[3].parent / "python"), cache=tmp_path / "cache")


def test_a_library_that_others_can_write_is_made_anew(tmp_path, kit):
    python = str(kit.library.parents[3].parent / "python")
    built = recorder(python, cache=tmp_path / "cache").path
    built.chmod(0o777)
    assert recorder(python, cache=tmp_path / "cache").path.stat().st_mode & 0o777 == 0o500


def test_without_cupti_it_says_what_to_install(tmp_path):
    compiler()
    with pytest.raises(MissingTool, match=r"No libcupti.*pip install nvidia-cuda-cupti"):
        recorder(cache=tmp_path / "cache")


def test_without_a_compiler_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match=r"No C compiler was found.*gcc"):
        recorder(cache=tmp_path / "cache")


def test_a_library_that_lacks_a_function_is_an_error_here_not_in_the_program(tmp_path):
    library = wheels(tmp_path / "site", version=130000)
    put(tmp_path / "site/nvidia/cu13/lib/empty.c", "int nothing;\n")
    os.system(f"{compiler()} -shared -o {library} {library.parent / 'empty.c'}")
    python = put(tmp_path / "python", f"#!/bin/sh\necho {tmp_path / 'site'}\n")
    python.chmod(0o755)
    with pytest.raises(MissingTool, match=r"undefined|libcupti"):
        recorder(str(python), cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_the_interpreter_of_a_command_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, text in {
        "python3.12": "",
        "torchrun": f"#!{tmp_path}/python3.12\nimport torch\n",
        "tool": "#!/usr/bin/env python3.12\n",
        "script": "#!/bin/sh\n",
        "app": "\x7fELF",
    }.items():
        put(tmp_path / name, text).chmod(0o755)
    python = str(tmp_path / "python3.12")
    assert python_of(["python3.12", "train.py"]) == python
    assert python_of(["torchrun", "train.py"]) == python
    assert python_of(["tool"]) == python
    assert python_of(["mpirun", "-n", "2", "python3.12", "train.py"]) == python
    for other in (["script"], ["app"], ["not_there"], []):
        assert python_of(other) is None
