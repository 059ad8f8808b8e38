"""Nothing that a caller or a program names becomes an option, a line of an input file or a loaded library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tools.running.command import check_command, inherited_environment
from rooflens.tools.running.drivers import registry
from rooflens.tools.running.drivers.ncu.command import trace_step
from rooflens.tools.running.job import Step
from rooflens.tools.running.range_filter import RangeFilter, RangePath
from rooflens.tools.running.request import LaunchSample, ProfileRequest

ODD = (
    "-o", "--log-file", "--export=/etc/x", "-", "--", "@file", "a b", "a\nb", "a;b", "$(x)", "`x`", "a'b", 'a"b', "*",
    "%q{HOME}", "%env{HOME}%", "\\", "regex:.*", "é", "a,b", "a|b", "kernel: x",
)  # fmt: skip
_FLAGS = {
    "rocprofv3": {"--kernel-trace", "--marker-trace", "--hip-trace", "--hsa-trace", "--memory-copy-trace"},
    "rocprof": {"--stats"},
    "rocprofv2": {"--kernel-trace"},
    "ncu": {"--csv", "--disable-extra-suffixes", "--nvtx", "--force-overwrite"},
    "perf": set(),
}
"""The options of each profiler that take no value; every other one takes the next word, whatever that is."""


def _steps(name: str, command: tuple[str, ...] = ("./app",), out: str = "/tmp/out", **asked: Any) -> list[Step]:
    driver = registry.profiler(name)
    passes = asked.pop("passes", (("cycles",),) if name == "perf" else (("sm__cycles_elapsed.avg",),) if name == "ncu"
                       else (("SQ_WAVES",),))  # fmt: skip
    request = ProfileRequest(command=command, passes=passes, replay=driver.REPLAY, **asked)
    return driver.steps(request, driver.features_of(None), program="/opt/x/prog", out=out)


def _options(name: str, step: Step, command: tuple[str, ...]) -> dict[str, list[str]]:
    """The options of a command line with their values, read as the profiler does; it ends with the whole command."""
    assert step.argv[-len(command) :] == command
    words = list(step.argv[1 : -len(command)])
    if name == "perf":
        assert words.pop(0) == "stat"
    if name not in ("rocprof", "rocprofv2"):
        assert words.pop() == "--", "what follows is the program"
    options: dict[str, list[str]] = {}
    while words:
        option = words.pop(0)
        assert option.startswith("-"), f"{option} would be the program"
        values = options.setdefault(option, [])
        if option == "--output-format":
            while words and not words[0].startswith("-"):
                values.append(words.pop(0))
        elif option not in _FLAGS[name]:
            values.append(words.pop(0))
    return options


@pytest.mark.parametrize("name", list(registry.profilers()))
def test_arguments_of_the_program_stay_behind_the_options(name: str) -> None:
    usual = [_options(name, step, ("./app",)) for step in _steps(name)]
    for odd in ODD:
        command = ("./app", odd, "--input", odd)
        try:
            steps = _steps(name, command)
        except BadArgument:
            assert name == "rocprof", "only its script passes words through a shell"
            continue
        assert [_options(name, step, command) for step in steps] == usual
        files = [text for step in steps for text in step.files.values()]
        assert files == [text for step in _steps(name) for text in step.files.values()]


@pytest.mark.parametrize("name", list(registry.profilers()))
@pytest.mark.parametrize("program", ["-o", "--export=x", "-", "--"])
def test_a_program_that_looks_like_an_option_is_the_program_or_refused(name: str, program: str) -> None:
    if name not in ("rocprof", "rocprofv2"):  # for the others, what follows -- is the program
        assert _options(name, _steps(name, (program, "x"))[0], (program, "x"))
        return
    with pytest.raises(BadArgument, match="as an option"):
        _steps(name, (program, "x"))


@pytest.mark.parametrize("name", [name for name in registry.profilers() if name != "perf"])
def test_a_kernel_name_is_a_value_or_refused(name: str) -> None:
    usual = [set(_options(name, step, ("./app",))) for step in _steps(name, kernel="k")]
    for odd in ODD:
        try:
            steps = _steps(name, kernel=odd)
        except BadArgument:
            continue
        assert [set(_options(name, step, ("./app",))) for step in steps] == usual
        for step in steps:
            values = _options(name, step, ("./app",)).get("--kernel-name", [])
            assert values in ([], [f"regex:{odd}"])
            for file, text in step.files.items():
                if file.endswith(".json"):
                    assert json.loads(text)["jobs"][0]["kernel_include_regex"] == odd
                elif file.endswith(".txt"):
                    assert text.count("\n") == 2 and text.endswith(f"kernel: {odd.replace('|', ' ')}\n")


@pytest.mark.parametrize("name", list(registry.profilers()))
@pytest.mark.parametrize("odd", ["-o", "--export", "a b", "SQ_WAVES\nrange: 0:9", "a;b", "x.c", "dir/x.o", "y.bpf", ""])
def test_a_counter_that_is_no_name_is_refused(name: str, odd: str) -> None:
    if name == "ncu" and odd in ("x.c", "y.bpf"):  # ncu's own names contain dots, and it loads nothing by them
        assert f",{odd}" in _steps(name, passes=((odd,),))[0].argv[2]
        return
    with pytest.raises(BadArgument):
        _steps(name, passes=((odd,),))


def test_names_of_kernels_in_a_sample_are_values() -> None:
    for odd in ODD:
        for name in ("ncu", "rocprofv3"):
            usual = [set(_options(name, s, ("./app",))) for s in _steps(name, sample=LaunchSample(("k",), 0, 1))]
            steps = _steps(name, sample=LaunchSample((odd,), 0, 1))
            assert [set(_options(name, step, ("./app",))) for step in steps] == usual
            for step in steps:
                assert all(
                    value.startswith("regex:^") for value in _options(name, step, ("./app",)).get("--kernel-name", [])
                )


def test_names_of_ranges_are_values_of_ncu_or_refused() -> None:
    """The real ncu 2025.3 takes the word after --nvtx-include as its value even if it is an option."""
    refused = 0
    for odd in ODD:
        for domain in (None, odd):
            within = RangeFilter((RangePath((odd,), domain), RangePath(("outer", odd))))
            try:
                (step,) = _steps("ncu", sample=LaunchSample(("k",), 0, 1, within=within))
            except BadArgument:
                refused += 1
                continue
            values = _options("ncu", step, ("./app",))["--nvtx-include"]
            assert values and not [value for value in values if value.startswith(("-", "regex:"))]
    assert refused >= 8


def test_the_program_follows_the_options_of_nsys() -> None:
    step = trace_step(("./app", "--output", "x"), "/tmp/out")
    assert step.argv[-3:] == ("./app", "--output", "x") and step.argv.index("--output") < len(step.argv) - 3
    with pytest.raises(BadArgument, match="as an option"):
        trace_step(("--help",), "/tmp/out")


@pytest.mark.parametrize(
    "name", ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "HSA_TOOLS_LIB", "ROCP_TOOL_LIB", "ROCP_TOOL_LIBRARIES",
             "ROCPROFILER_REGISTER_LIBRARY"]
)  # fmt: skip
def test_a_variable_that_loads_another_tool_is_neither_passed_on_nor_accepted(name: str) -> None:
    assert inherited_environment({name: "/x.so", "HSA_XNACK": "1"}) == {"HSA_XNACK": "1"}
    with pytest.raises(BadArgument, match="loads a tool"):
        check_command(["true"], "/", {name: "/x.so"}, {"PATH": "/bin:/usr/bin"})
    assert check_command(["true"], "/", {"LD_PRELOAD": "liballocator.so"}, {"PATH": "/bin:/usr/bin"}) == "/"
