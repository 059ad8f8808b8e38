"""What profilers print when they fail, recognised."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from rooflens.analysis.problems import BadArgument, LimitExceeded, MissingTool, NotFound, Problem
from rooflens.tools.profilers import failures
from rooflens.tools.profilers.drivers import profilers
from rooflens.tools.profilers.failures import explained


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
        ("rocprofv3", "Fatal error: /opt/rocm/lib/librocprofiler-sdk.so does not exist", MissingTool, "incomplete"),
        ("rocprofv3", "FileNotFoundError: [Errno 2] No such file or directory: './nosuch'", NotFound, "./nosuch"),
        ("rocprofv3", "LLVM ERROR: Option 'x' registered more than once!", MissingTool, "PyTorch"),
        ("rocprofv3", "hsa_init failed: HSA_STATUS_ERROR_OUT_OF_RESOURCES", MissingTool, "OUT_OF_RESOURCES"),
        ("rocprof", "Unable to open /dev/kfd read-write: Permission denied", MissingTool, "render"),
        ("rocprof", "Error: 'rocminfo' utility is not found: please add ROCM bin path to PATH", MissingTool, "PATH"),
        ("rocprof", "/opt/rocm/bin/rocprof: Error: Wrong option '--bogus'", MissingTool, "--bogus"),
        ("ncu", "==ERROR== unrecognised option '--bogus'. Use --help for further details.", MissingTool, "--bogus"),
        ("ncu", "==ERROR== '/tmp/nodir/x.csv' cannot be used as the output log file", MissingTool, "mkdir"),
        ("ncu", "Failed to initialize the profiler: LibraryNotLoaded", MissingTool, "runc"),
        ("perf", "Access to performance monitoring and observability operations is limited.", MissingTool, "paranoid"),
    ],
)
def test_known_failures_are_told_with_the_fix(profiler: str, text: str, kind: type[Problem], told: str) -> None:
    said = explained(profiler, 1, f"some line before\n{text}\nand after\n")
    assert isinstance(said, kind)
    assert said.fix
    assert told in said.text


def test_every_text_can_be_filled_from_what_its_pattern_names() -> None:
    source = Path(failures.__file__).with_suffix(".toml").read_text(encoding="utf-8")
    for entry in tomllib.loads(source)["failure"]:
        names = dict.fromkeys(re.compile(entry["pattern"]).groupindex, "x")
        assert all(entry[part].format(profiler="p", **names) for part in ("what", "why", "fix"))
        assert set(entry["profilers"]) <= profilers().keys()


@pytest.mark.parametrize("name", list(profilers()))
def test_a_program_that_fails_by_itself_is_not_explained_away(name: str) -> None:
    assert explained(name, 139, "Segmentation fault (core dumped)\nerror: bad input\n") is None
    assert profilers()[name].explain(0, "everything is fine\n") is None


def test_what_a_successful_program_prints_is_no_failure() -> None:
    assert explained("rocprofv3", 0, "my app: No such file or directory: 'x', HSA_STATUS_ERROR in the log") is None


def test_texts_of_the_output_are_made_plain_and_only_the_end_of_much_is_read() -> None:
    said = explained("perf", 129, "event syntax error: 'no\x1b[31msuch'\n")
    assert said is not None
    assert "\x1b" not in said.text
    assert explained("perf", 1, "event syntax error: 'x'\n" + "y" * 300_000) is None
