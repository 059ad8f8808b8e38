"""Shell lines for programs with many ranks, run by a real shell."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.tools.running.drivers import registry as programs
from rooflens.tools.running.drivers.registry import launcher_lines
from rooflens.tools.running.request import ProfileRequest

COMMAND = ("./app", "a b", "$(x)", "it's")
ECHO = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"


def lines(name: str, program: str, command: tuple[str, ...], out: str) -> dict[str, str]:
    module = programs.profiler(name)
    wanted = ProfileRequest(command=command, passes=(("SQ_WAVES",),), replay=module.REPLAY)
    step = module.steps(wanted, module.features_of(None), program=program, out=out)[-1]
    return launcher_lines(programs.profiler(name), step, command)


def test_the_profiler_stands_inside_the_launcher() -> None:
    for name in programs.profilers():
        found = lines(name, "prog", ("./app",), "run")
        assert found["slurm"].startswith("srun --ntasks=RANKS ")
        assert found["openmpi"].startswith("mpirun -n RANKS ")
        assert found["torchrun"].startswith("torchrun --nproc-per-node=RANKS --no-python ")
        assert all(line.endswith("./app") for line in found.values())


@pytest.mark.parametrize(
    ("launcher", "variable"), [("slurm", "SLURM_PROCID"), ("openmpi", "OMPI_COMM_WORLD_RANK"), ("torchrun", "RANK")]
)
def test_a_file_under_a_fixed_name_gets_the_rank(launcher: str, variable: str, tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    wrapper = tmp_path / "prog"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {tmp_path}/echo.py "$@"\n')
    wrapper.chmod(0o755)
    line = lines("perf", str(wrapper), COMMAND, "my run")[launcher]
    start = line.index("sh -c")
    done = subprocess.run(
        ["/bin/sh", "-c", line[start:]], capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, variable: "3"},
    )  # fmt: skip
    seen = json.loads(done.stdout)
    assert "my run/run_1/stat_3.csv" in seen
    assert tuple(seen[seen.index("--") + 1 :]) == COMMAND


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
