"""What profilers print when they fail, recognised."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from rooflens.analysis.base.problems import BadArgument, LimitExceeded, MissingTool, NotAllowed, NotFound, Problem
from rooflens.tools.device.machine.host_settings import Setting
from rooflens.tools.running import known_failures
from rooflens.tools.running.drivers.registry import profilers
from rooflens.tools.running.known_failures import (
    EVERYTHING,
    PROGRAM,
    explain_failure,
    version_defects,
    version_numbers,
)


@pytest.mark.parametrize(
    ("profiler", "text", "kind", "told"),
    [
        ("rocprofv3", "ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT", LimitExceeded, "registers"),
        (
            "rocprofv3",
            "F1120 tool.cpp:1 Request exceeds the capabilities of the hardware to collect",
            LimitExceeded,
            "",
        ),
        ("rocprofv3", "Unable to find all counters for agent 4 (gpu-0, gfx942) in [X, Y]", BadArgument, "counter"),
        ("rocprofv3", "RuntimeError: conflicting value for output_file : a vs b", BadArgument, "ROCPROF_"),
        ("rocprofv3", "RuntimeError: Option 'pmc' has conflicting values: [] vs []", BadArgument, "ROCPROF_"),
        ("rocprofv3", "E rocattach.cpp:1] no rocp-bg-attach thread found in process 4711", MissingTool, "ROCP_TOOL"),
        ("rocprofv3", "ptrace(PTRACE_SEIZE) failed: Operation not permitted", MissingTool, "ptrace_scope"),
        ("rocprofv3", "Fatal error: /opt/rocm/lib/librocprofiler-sdk.so does not exist", MissingTool, "incomplete"),
        (
            "rocprofv3",
            'File "/opt/rocm/bin/rocprofv3", line 1234, in <module>\n  File "/usr/lib/python3.10/os.py", line 575, in '
            "execvpe\nFileNotFoundError: [Errno 2] No such file or directory: './nosuch'",
            NotFound,
            "./nosuch",
        ),
        ("rocprofv3", "LLVM ERROR: Option 'x' registered more than once!", MissingTool, "PyTorch"),
        ("rocprofv3", "hsa_init failed: HSA_STATUS_ERROR_OUT_OF_RESOURCES", MissingTool, "OUT_OF_RESOURCES"),
        ("rocprof", "Unable to open /dev/kfd read-write: Permission denied", MissingTool, "render"),
        ("rocprof", "Error: 'rocminfo' utility is not found: please add ROCM bin path to PATH", MissingTool, "PATH"),
        ("rocprof", "/opt/rocm/bin/rocprof: Error: Wrong option '--bogus'", MissingTool, "--bogus"),
        ("ncu", "==ERROR== unrecognised option '--bogus'. Use --help for further details.", MissingTool, "--bogus"),
        ("ncu", "==ERROR== '/tmp/nodir/x.csv' cannot be used as the output log file", MissingTool, "mkdir"),
        ("ncu", "Failed to initialize the profiler: LibraryNotLoaded", MissingTool, "runc"),
        (
            "ncu",
            "Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).",
            MissingTool,
            "stub",
        ),
        ("ncu", "==WARNING== No kernels were profiled.", NotFound, "no kernel"),
        ("perf", "Access to performance monitoring and observability operations is limited.", MissingTool, "paranoid"),
    ],
)
def test_known_failures_are_told_with_the_fix(profiler: str, text: str, kind: type[Problem], told: str) -> None:
    said = explain_failure(profiler, 1, f"some line before\n{text}\nand after\n")
    assert isinstance(said, kind)
    assert said.fix
    assert told in said.text


def test_every_text_can_be_filled_from_what_its_pattern_names() -> None:
    source = Path(known_failures.__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for entry in tomllib.loads(source)["failure"]:
        names = dict.fromkeys([*re.compile(entry["pattern"]).groupindex, "interpreter"], "x")
        assert all(entry[part].format(profiler="p", **names) for part in ("what", "why", "fix"))
        assert set(entry["profilers"]) <= {*profilers(), PROGRAM}


@pytest.mark.parametrize("name", list(profilers()))
def test_a_program_that_fails_by_itself_is_not_explained_away(name: str) -> None:
    assert explain_failure(name, 139, "Segmentation fault (core dumped)\nerror: bad input\n") is None
    assert explain_failure(name, 0, "everything is fine\n") is None


def test_what_a_successful_program_prints_is_no_failure() -> None:
    assert (
        explain_failure("rocprofv3", 0, "my app: No such file or directory: 'x', HSA_STATUS_ERROR in the log") is None
    )


def test_texts_of_the_output_are_made_plain_and_only_the_end_of_much_is_read() -> None:
    said = explain_failure("perf", 129, "event syntax error: 'no\x1b[31msuch'\n")
    assert said is not None
    assert "\x1b" not in said.text
    assert explain_failure("perf", 1, "event syntax error: 'x'\n" + "y" * 300_000) is None


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("ModuleNotFoundError: No module named 'torch'", MissingTool, "no module torch. It ran with /usr/bin/python"),
        ("/usr/bin/python3: No module named train.main", MissingTool, "no module train.main"),
        ('    name = input("? ")\nEOFError: EOF when reading a line', BadArgument, "standard input"),
        ("termios.error: (25, 'Inappropriate ioctl for device')", BadArgument, "terminal"),
        ("the input device is not a TTY", BadArgument, "terminal"),
        ("torch.OutOfMemoryError: CUDA out of memory. 20 GiB.", LimitExceeded, "replay='application'"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB.", LimitExceeded, "GPU memory"),
        ("AssertionError: Torch not compiled with CUDA enabled", MissingTool, "without GPU support"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", MissingTool, "Compile"),
        ("RuntimeError: No HIP GPUs are available", MissingTool, "ROCR_VISIBLE_DEVICES"),
        ("./app: error while loading shared libraries: libcublas.so.13: cannot open shared object file: No such file",
         MissingTool, 'library libcublas.so.13. It is in none of the folders'),
        ("ImportError: libcudart.so.12: cannot open shared object file", MissingTool, '{"LD_LIBRARY_PATH"'),
        ("python: can't open file '/home/u/train.py': [Errno 2] No such file or directory", NotFound, "Set cwd"),
        ("bash: line 1: nvcc: command not found", NotFound, "no command nvcc"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'", NotFound, "find data/train.bin"),
        ("The server socket has failed to listen on any local network address. errno: 98 - Address already in use",
         BadArgument, "--standalone"),
        ("mpirun has detected an attempt to run as root.", NotAllowed, "--allow-run-as-root"),
        ("There are not enough slots available in the system to satisfy the 8", BadArgument, "--oversubscribe"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error.", LimitExceeded, "num_workers=0"),
        ("CondaError: Run 'conda init' before 'conda activate'", NotFound, "envs/NAME/bin/python"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", NotAllowed, "with env"),
    ],
)  # fmt: skip
def test_how_programs_fail_that_are_run_for_the_first_time_here(text: str, kind: type[Problem], told: str) -> None:
    said = explain_failure(PROGRAM, 1, f"starting\n{text}\n", {"interpreter": "/usr/bin/python"})
    assert type(said) is kind and said.fix and told in said.text
    assert explain_failure(PROGRAM, 0, text, {"interpreter": ""}) is None


@pytest.mark.parametrize(
    "text", ["ValueError: x", "Segmentation fault", "kernel not found in cache", "loss: not a number"]
)
def test_what_only_the_programmer_knows_is_left_to_its_own_words(text: str) -> None:
    assert explain_failure(PROGRAM, 1, text) is None


def test_a_program_that_fails_before_its_first_kernel_is_not_told_that_none_fits_the_filter() -> None:
    said = "==ERROR== The application returned an error code (1).\n==WARNING== No kernels were profiled.\n"
    assert explain_failure("ncu", 1, said) is None


@pytest.mark.parametrize(
    ("version", "targets", "command", "collects", "codes"),
    [
        ("1.3.2", ["gfx942"], "vllm serve model", {"counters"},
         {"hangs_with_vllm", "leaves_children", "crashes_beside_pytorch"}),
        ("1.3.2", ["gfx942"], "./app", {"counters"}, {"leaves_children"}),
        ("1.3.5", ["gfx942"], "vllm serve model", {"counters"}, {"leaves_children", "crashes_beside_pytorch"}),
        ("1.1", ["gfx942"], "vllm serve model", set(), {"leaves_children"}),
        ("1.4.1", ["gfx942"], "vllm serve model", EVERYTHING, set()),
        ("1.0.0", ["gfx950"], "./app", {"timeline"}, {"leaves_children", "streams_missing"}),
        ("1.3.5", ["gfx1201"], "./app", {"counters"},
         {"leaves_children", "zero_below_profile_level", "zero_wave_cycles"}),
        ("1.3.5", ["gfx1201"], "./app", {"timeline"}, {"leaves_children"}),
        ("1.1.0", ["gfx1151"], "./app", {"counters"},
         {"leaves_children", "zero_below_profile_level", "aborts_on_strix", "zero_beside_other_gpus"}),
        ("1.3.2", ["gfx1103"], "./app", {"counters"},
         {"leaves_children", "zero_below_profile_level", "lists_no_counters"}),
        ("1.3.2", ["gfx1100"], "./app", {"thread_trace"},
         {"leaves_children", "zero_below_profile_level", "empty_thread_trace"}),
        ("1.3.2", ["gfx1201"], "./app", {"hotspots"}, {"leaves_children", "no_samples"}),
        ("1.1.0", ["gfx90a"], "", {"attach"},
         {"leaves_children", "attached_without_output", "attaches_not_to_pytorch"}),
        (None, ["gfx90a"], "./app", EVERYTHING, set()),
    ],
)  # fmt: skip
def test_the_known_defects_of_a_version_are_those_that_a_run_can_meet(
    version: str | None, targets: list[str], command: str, collects: Any, codes: set[str]
) -> None:
    defects = version_defects("rocprofv3", version, targets=targets, command=command, collects=frozenset(collects))
    assert {defect.code for defect in defects} == codes
    for defect in defects:
        told = defect.text("rocprofv3", version)
        assert defect.source in told and (f"Mended in {defect.mended}" in told or not defect.mended)


def test_a_profiler_of_an_unknown_version_has_the_defects_of_all_versions() -> None:
    assert [defect.code for defect in version_defects("rocprofv2", None)] == ["launches_missing"]
    assert version_defects("torch", None) == [] and version_defects("ncu", "2026.1") == []


def test_every_known_defect_states_its_conditions_in_known_words() -> None:
    entries = tomllib.loads((Path(known_failures.__file__).with_suffix(".toml")).read_text())["defect"]
    assert len({entry["code"] for entry in entries}) == len(entries) >= 14
    for entry in entries:
        assert set(entry["profilers"]) <= {*profilers(), "torch"} and set(entry.get("collects", ())) <= EVERYTHING
        assert entry.get("setting", "power_level") in get_args(Setting)
        for pattern in (entry.get("gpu", ""), entry.get("command", "")):
            re.compile(pattern)
        since, before = (version_numbers(entry.get(bound, "")) for bound in ("since", "before"))
        assert not before or since < before
