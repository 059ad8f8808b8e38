"""doctor: every check has a state and, where something is wrong, a remedy."""

from __future__ import annotations

import json
import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.doctor import examination as module
from rooflens.tests.support import machines
from rooflens.tools.device.machine import programs
from rooflens.tools.device.machine.model import Check, Device, InstalledProfiler, Roots
from rooflens.tools.device.machine.permissions import CounterPermission
from rooflens.tools.device.machine.programs import ProgramAnswer
from rooflens.tools.device.machine.survey import Machine


def named(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.fixture
def bare(tmp_path: Path) -> Roots:
    """A machine with nothing on it."""
    return Roots(base=tmp_path / "bare", search="", site=None)


def test_a_machine_without_a_gpu(tmp_path: Path, bare: Roots) -> None:
    checks = named(module.examine(Store(tmp_path / "store"), bare)[1])
    assert {"Python", "mcp", "duckdb", "store", "free space", "GPU", "perf", "hip-python", "without a GPU"} <= set(
        checks
    )
    assert checks["GPU"].state == "missing" and checks["without a GPU"].state == "ok"
    assert all(check.fix for check in checks.values() if check.state == "missing")
    assert checks["mcp"].state == checks["duckdb"].state == checks["store"].state == "ok"
    assert not (tmp_path / "store").exists()


def test_damaged_entries_are_listed(tmp_path: Path, bare: Roots) -> None:
    (tmp_path / "workload=broken").mkdir()
    (tmp_path / "foreign\x1b[31m").mkdir()
    damaged = [c for c in module.examine(Store(tmp_path), bare)[1] if c.name == "damaged entry"]
    assert len(damaged) == 2 and all(c.state == "warning" and c.fix and c.found.isprintable() for c in damaged)


def test_a_store_that_cannot_be_written(tmp_path: Path, bare: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    checks = named(module.examine(Store(tmp_path / "file"), bare)[1])
    assert checks["store"].state == checks["workloads"].state == "warning" and "--store" in checks["store"].fix


@pytest.mark.parametrize(("allowed", "state"), [(os.R_OK | os.X_OK, "warning"), (os.W_OK | os.X_OK, "ok")])
def test_a_folder_that_may_only_be_read_or_is_nearly_full_is_no_place_for_a_store(
    allowed: int, state: str, tmp_path: Path, bare: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: mode & allowed == mode)
    monkeypatch.setattr(module, "_LOW_GB", 1e12)
    checks = named(module.examine(Store(tmp_path), bare)[1])
    assert checks["store"].state == state
    assert checks["free space"].state == "warning" and checks["free space"].fix


@pytest.mark.parametrize(
    ("version", "state"),
    [("1.5.4", "warning"), ("1.5.5", "ok"), ("2.0.0", "ok"), ("3.0.0", "warning"), (None, "missing")],
)
def test_packages_against_the_bounds_of_the_project(
    monkeypatch: pytest.MonkeyPatch, version: str | None, state: str
) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(programs.metadata, "version", installed)
    monkeypatch.setattr(programs.metadata, "requires", lambda name: ["duckdb-extra>=9", "duckdb<3,>=1.5.5", "mcp>=2"])
    check = programs.package("duckdb")
    assert check.state == state and (state == "ok" or "pip install" in check.fix)


@pytest.mark.parametrize(
    ("answer", "needed", "state", "found"),
    [
        (ProgramAnswer(0, "imported\n50221153\n"), True, "ok", "HIP runtime 5.2.21153"),
        (ProgramAnswer(1, "imported\n", "RuntimeError: could not dlopen"), True, "missing", "libamdhip64"),
        (ProgramAnswer(1, "imported\n", "RuntimeError: could not dlopen"), False, "ok", "libamdhip64"),
        (ProgramAnswer(1, "", "ModuleNotFoundError: No module named 'hip'"), True, "missing", "No module named"),
        (ProgramAnswer(None, "", "", "did not answer within 20 s"), True, "missing", "did not answer"),
        (ProgramAnswer(-11, "imported\n"), True, "missing", "libamdhip64"),
    ],
)
def test_hip_python_is_tried_in_a_child(
    monkeypatch: pytest.MonkeyPatch, answer: ProgramAnswer, needed: bool, state: str, found: str
) -> None:
    monkeypatch.setattr(programs, "ask", lambda argv, timeout_s: answer)
    check = programs.hip(needed)
    assert check.state == state and found in check.found and bool(check.fix) == (state == "missing")


GPU = Device(vendor="amd", index=0, name="AMD Instinct MI300X", arch="gfx942", supported=True)


@pytest.mark.parametrize(
    ("answer", "state", "found"),
    [
        ({"compiler": "hiprtc 6.3", "launched": True}, "ok", "compiled by hiprtc 6.3, and launched"),
        ({"compiler": "clang", "launched": None, "why": "0 GPUs"}, "warning", "could not be tried (0 GPUs)"),
        ({"compiler": "clang", "launched": False, "why": "(303)"}, "warning", "launching one failed ((303))"),
        ({"compiler": None, "launched": None, "why": "no clang"}, "missing", "cannot be compiled (no clang)"),
        (None, "warning", "ended with status -11"),
    ],
)
def test_doctor_tells_what_compiling_and_launching_gave(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, object] | None, state: str, found: str
) -> None:
    told = f"a library's banner\n{json.dumps({'why': '', 'fix': 'mend', **(answer or {})})}\n"
    given = ProgramAnswer(-11) if answer is None else ProgramAnswer(0, told)
    monkeypatch.setattr(programs, "ask", lambda argv, timeout_s: given)
    check = programs.kernels(GPU)
    assert (check.name, check.state) == ("kernels for gfx942", state) and found in check.found
    assert answer is None or check.fix == ("" if state == "ok" else "mend")


def test_kernels_are_compiled_where_no_gpu_is_and_launching_is_said_not_to_be_tried() -> None:
    if shutil.which("clang-22") is None:
        pytest.skip("needs a clang for gfx942: apt-get install clang-22 lld-22")
    check = programs.kernels(GPU)
    assert "compiled by" in check.found and "launching could not be tried" in check.found
    unknown = programs.kernels(GPU.model_copy(update={"arch": "gfx9999"}))
    assert unknown.state == "missing" and "gfx9999" in unknown.found and unknown.fix


def test_nvcc_is_found_with_its_version_or_missing(tmp_path: Path) -> None:
    machine = machines.Machine(tmp_path)
    assert programs.nvcc(machine.roots).state == "missing"
    program = machine.program("nvcc", "echo 'release 13.0, V13.0.48'", "usr/local/cuda-13.0/bin")
    found = programs.nvcc(machine.roots)
    assert (found.state, found.found) == ("ok", f"13.0, {program}")


def test_one_missing_thing_has_one_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with the driver's sysfs but without its device, and without ROCm."""
    container = machines.Machine(tmp_path / "machine")
    container.node(1, simd_count=416, simd_per_cu=4, gfx_target_version=90010, device_id=29711)
    monkeypatch.setattr(programs, "kernels", lambda gpu: Check(name="kernels", state="ok", found=""))
    checks = module.examine(Store(tmp_path / "store"), container.roots)[1]
    assert "AMD Instinct MI210" in named(checks)["GPU 0 (AMD)"].found
    about = [check for check in checks if "/dev/kfd" in f"{check.found} {check.fix}"]
    assert [check.name for check in about] == ["counters (AMD)"]
    assert "no ROCm was found here" in named(checks)["rocprofv3"].fix
    said = " ".join(f"{check.found} {check.fix}" for check in checks)
    assert not [word for word in ("nvidia", "NVIDIA", "CUDA", "ncu ") if word in said]


def test_gpus_counters_and_profilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Device(
        vendor="nvidia", index=0, name="NVIDIA H200", arch="sm_90", memory_bytes=150_754_820_096, compute_units=132
    )
    refused = CounterPermission(False, "administrators only", "run as root")
    ncu = InstalledProfiler(
        name="ncu", vendor="nvidia", path="/x/ncu", version="2025.3", usable=False, why=refused.why, fix=refused.fix
    )
    machine = Machine([gpu], [ncu], {"nvidia": refused}, ["a note"])
    monkeypatch.setattr(module, "survey", lambda roots: machine)
    checks = named(module.examine(Store(tmp_path), Roots())[1])
    assert "132 SMs" in checks["GPU 0 (NVIDIA)"].found and "151 GB (140 GiB)" in checks["GPU 0 (NVIDIA)"].found
    assert (checks["counters (NVIDIA)"].state, checks["counters (NVIDIA)"].fix) == ("warning", "run as root")
    assert checks["ncu"].state == "warning" and checks["ncu"].found.endswith("see counters (NVIDIA)")
    assert checks["note"].found == "a note" and "cuda-bindings" in checks


def test_a_broken_profiler_is_told_although_counters_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = CounterPermission(False, "users may not count events", "sysctl")
    perf = InstalledProfiler(name="perf", vendor="cpu", path="/x/perf", usable=False, why="perf ended", fix="mend it")
    for broken, ending, fix in ((frozenset({"perf"}), "perf ended", "mend it"), (frozenset(), "counters (CPU)", "")):
        machine = Machine([], [perf], {"cpu": refused}, [], broken)
        monkeypatch.setattr(module, "survey", lambda roots, machine=machine: machine)
        check = named(module.examine(Store(tmp_path), Roots())[1])["perf"]
        assert (check.state, check.fix) == ("warning", fix) and check.found.endswith(ending)
