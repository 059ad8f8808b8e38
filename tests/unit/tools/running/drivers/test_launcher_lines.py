"""Shell lines for programs with many ranks: the profiler stands inside the launcher."""

from __future__ import annotations

import shlex

from rooflens.tools.running.drivers import registry as programs
from rooflens.tools.running.drivers.registry import launcher_lines
from rooflens.tools.running.request import ProfileRequest

COMMAND = ("./app", "a b", "$(x)", "it's")


def lines(name: str, program: str, command: tuple[str, ...], out: str) -> dict[str, str]:
    module = programs.profiler(name)
    wanted = ProfileRequest(command=command, passes=(("SQ_WAVES",),), replay=module.REPLAY)
    step = module.steps(wanted, module.features_of(None), program=program, out=out)[-1]
    return launcher_lines(programs.profiler(name), step, command)


def test_rocprofv3_names_its_files_by_rank_itself() -> None:
    line = lines("rocprofv3", "rocprofv3", COMMAND, "run")["slurm"]
    words = shlex.split(line)
    name = words[words.index("--output-file") + 1]
    assert "%nid%" in name and "rank%env{RANK}%" in name
    assert tuple(words[words.index("--") + 1 :]) == COMMAND


def test_ncu_writes_a_report_per_process_because_its_log_has_one_name() -> None:
    words = shlex.split(lines("ncu", "ncu", COMMAND, "run")["slurm"])
    assert words[words.index("--export") + 1] == "run/pass_1/report_%h_%p"
    assert not {"--csv", "--log-file", "--page"} & set(words)
    assert tuple(words[words.index("--") + 1 :]) == COMMAND
