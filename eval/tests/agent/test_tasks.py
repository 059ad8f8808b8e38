"""The tasks that are shipped: whole, right on an emulated device, and compiled for the GPUs that they are for."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from rooflens.eval.agent.games.tasks import FOLDER, Task, tasks

HERE = Path(__file__).resolve().parent
ALL = tasks()
VERSIONS = ("slow", "best")
LAUNCH = re.compile(r"(\w+)<<<([^,]+), (.+?)>>>\(")


def versions(language: str) -> list[tuple[Task, str, Path]]:
    return [(t, v, t.slow.with_stem(v)) for t in ALL if t.language == language for v in VERSIONS]


def together(language: str, *, drivers: bool) -> str:
    """All versions of a language in one source file, each in a namespace of its own, so that headers are read once."""
    parts = []
    for task, version, path in versions(language):
        files = [path, path.with_stem("driver")] if drivers else [path]
        text = "\n".join(file.read_text() for file in files)
        parts.append(f"namespace {task.name}_{version} {{\n{text}\n}}\n")
    return "".join(parts)


def compiled(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program with every version and its driver, for a device that the CPU plays."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ to build the tasks for the emulated device")
    folder = tmp_path_factory.mktemp("emulated")
    names = [f"{task.name}_{version}" for lang in ("cuda", "hip") for task, version, _ in versions(lang)]
    calls = [f' if (name == "{n}") return {n}::main(argc - 1, argv + 1);\n' for n in names]
    text = (
        '#include "driver.h"\n#include <cuda_runtime.h>\n'
        + together("cuda", drivers=True)
        + together("hip", drivers=True)
    )
    main = f"int main(int argc, char **argv) {{\n const std::string name = argv[1];\n{''.join(calls)} return 9;\n}}\n"
    source = folder / "all.cpp"
    source.write_text(LAUNCH.sub(r"hipLaunchKernelGGL(\1, \2, \3, 0, 0, ", text) + main)
    options = ["-std=c++20", "-O1", "-w", "-D__HIP_PLATFORM_AMD__", f"-I{HERE / 'emulated'}", f"-I{FOLDER}"]
    compiled(compiler, *options, source, "-o", folder / "all")
    return folder / "all"


def test_there_are_twelve_tasks_and_each_is_whole() -> None:
    assert Counter(task.language for task in ALL) == {"cuda": 5, "hip": 4, "triton": 3}
    for task in ALL:
        assert task.best is not None and task.slow.exists() and task.best.exists()
        assert task.rounds >= 3 and task.why and task.title and task.text.strip()
        assert task.slow.read_text() != task.best.read_text()
        if task.entry:
            assert task.entry.removesuffix(";") in task.slow.read_text()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("task", [t for t in ALL if t.language in ("cuda", "hip")], ids=lambda t: t.name)
def test_both_versions_are_right_on_the_emulated_device(emulated: Path, task: Task, version: str) -> None:
    small = tomllib.loads((task.slow.parent / "task.toml").read_text())["small"]
    words = [str(emulated), f"{task.name}_{version}", "--size", str(small), "--repeat", "0", "--seed", "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert '"right": true' in done.stdout


def test_a_wrong_version_is_noticed_by_its_driver(emulated: Path, tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    assert compiler is not None
    for old, new in (("out[column * n + row]", "out[row * n + column]"), ("out[column * n + row] = in", "in")):
        driver = (FOLDER / "transpose" / "driver.cu").read_text()
        slow = LAUNCH.sub(r"hipLaunchKernelGGL(\1, \2, \3, 0, 0, ", (FOLDER / "transpose" / "slow.cu").read_text())
        assert old in slow
        (tmp_path / "wrong.cpp").write_text(driver + slow.replace(old, new))
        options = ["-std=c++20", "-O0", "-w", "-D__HIP_PLATFORM_AMD__", f"-I{HERE / 'emulated'}", f"-I{FOLDER}"]
        compiled(compiler, *options, tmp_path / "wrong.cpp", "-o", tmp_path / "wrong")
        words = [str(tmp_path / "wrong"), "--size", "32", "--repeat", "0"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        assert '"right": false' in done.stdout


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_hip_versions_compile_for_the_mi200_and_the_mi300(tmp_path: Path, target: str) -> None:
    compiler = shutil.which("clang-22")
    if compiler is None:
        pytest.skip("needs clang-22 with the AMDGPU back end")
    (tmp_path / "all.hip").write_text("#include <hip/hip_runtime.h>\n" + together("hip", drivers=False))
    words = [
        "-x",
        "hip",
        f"--offload-arch={target}",
        "--cuda-device-only",
        "-S",
        "-std=c++17",
        "-O3",
        "-Wall",
        "-Wextra",
    ]
    words += ["-Werror", "-D__HIP_PLATFORM_AMD__", "-nogpuinc", "-nogpulib", f"-I{HERE / 'declared'}"]
    words += ["-include", "__clang_hip_runtime_wrapper.h"]
    compiled(compiler, *words, tmp_path / "all.hip", "-o", tmp_path / "all.s")
    assembly = (tmp_path / "all.s").read_text()
    assert assembly.count(".amdhsa_kernel ") == 8 and f"amdgcn-amd-amdhsa--{target}" in assembly
    spilled = re.findall(r"\.amdhsa_private_segment_fixed_size (\d+)", assembly)
    assert set(spilled) == {"0"}


def test_cuda_versions_compile_for_hopper(tmp_path: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("needs nvcc")
    text = '#include "driver.h"\n' + together("cuda", drivers=True)
    (tmp_path / "all.cu").write_text(text)
    strict = ["-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings"]
    words = ["-std=c++17", "-O3", "-arch=sm_90", f"-I{FOLDER}", *strict]
    compiled(compiler, *words, "-c", tmp_path / "all.cu", "-o", tmp_path / "all.o")


@pytest.mark.parametrize(("task", "version", "path"), versions("triton"), ids=lambda v: str(getattr(v, "name", v)))
def test_triton_versions_define_the_model_and_a_kernel(task: Task, version: str, path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert "ModelNew" in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    decorated = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    assert decorated
    assert task.reference is not None
    names = {node.name for node in ast.parse(task.reference.read_text()).body if hasattr(node, "name")}
    assert names == {"Model", "get_inputs", "get_init_inputs"}


F32, F16 = "*fp32", "*fp16"
SIGNATURES: dict[tuple[str, str], dict[str, str]] = {
    ("row_softmax", "softmax"): {"x": F32, "y": F32, "columns": "i32"},
    ("half_matmul", "multiply"): {"a": F16, "b": F16, "c": F16, "n": "i32"},
    ("bias_gelu", "add_bias"): {"x": F32, "bias": F32, "y": F32, "count": "i32", "columns": "i32"},
    ("bias_gelu", "gelu"): {"x": F32, "y": F32, "count": "i32"},
    ("bias_gelu", "multiply"): {"x": F32, "y": F32, "count": "i32", "scale": "fp32"},
    ("bias_gelu", "bias_gelu"): {
        "x": F32, "bias": F32, "y": F32, "count": "i32", "columns": "i32", "scale": "fp32",
    },
}  # fmt: skip
"""Types of the arguments of each Triton kernel; what is not here is known when it is compiled."""
CONSTANTS = {
    ("row_softmax", "slow"): {"BLOCK": 128},
    ("row_softmax", "best"): {"BLOCK": 4096},
    ("half_matmul", "slow"): {"BLOCK": 16},
    ("half_matmul", "best"): {"BLOCK": 128, "DEPTH": 64, "GROUP": 8},
    ("bias_gelu", "slow"): {"BLOCK": 256},
    ("bias_gelu", "best"): {"BLOCK": 1024},
}


@pytest.mark.parametrize(("task", "version", "path"), versions("triton"), ids=lambda v: str(getattr(v, "name", v)))
def test_triton_versions_compile_for_hopper_and_the_mi300(
    task: Task, version: str, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    triton = pytest.importorskip("triton", reason="needs Triton, which no test of the project needs otherwise")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for name in ("torch", "torch.nn"):  # what is imported in their place goes with this test
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(HERE / "stand_in_torch"))
    spec = importlib.util.spec_from_file_location(f"{task.name}_{version}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    constants = CONSTANTS[task.name, version]
    kernels = [name for name, found in vars(module).items() if isinstance(found, triton.runtime.JITFunction)]
    assert kernels
    for name in kernels:
        signature = SIGNATURES[task.name, name] | dict.fromkeys(constants, "constexpr")
        for target, code in ((GPUTarget("cuda", 90, 32), "cubin"), (GPUTarget("hip", "gfx942", 64), "hsaco")):
            source = ASTSource(fn=getattr(module, name), signature=signature, constexprs=constants)
            assert triton.compile(source, target=target).asm[code]
