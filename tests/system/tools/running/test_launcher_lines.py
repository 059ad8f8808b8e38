"""Shell lines for programs with many ranks, run by a real shell."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.tools.running.drivers import registry
from rooflens.tools.running.drivers.registry import launcher_lines
from rooflens.tools.running.request import ProfileRequest

COMMAND = ("./app", "a b", "$(x)", "it's")
ECHO = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"


@pytest.mark.parametrize(
    ("launcher", "variable"), [("slurm", "SLURM_PROCID"), ("openmpi", "OMPI_COMM_WORLD_RANK"), ("torchrun", "RANK")]
)
def test_a_file_under_a_fixed_name_gets_the_rank(launcher: str, variable: str, tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    wrapper = tmp_path / "prog"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {tmp_path}/echo.py "$@"\n')
    wrapper.chmod(0o755)
    perf = registry.profiler("perf")
    wanted = ProfileRequest(command=COMMAND, passes=(("SQ_WAVES",),), replay=perf.REPLAY)
    step = perf.steps(wanted, perf.features_of(None), program=str(wrapper), out="my run")[-1]
    line = launcher_lines(perf, step, COMMAND)[launcher]
    start = line.index("sh -c")
    done = subprocess.run(
        ["/bin/sh", "-c", line[start:]], capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, variable: "3"},
    )  # fmt: skip
    seen = json.loads(done.stdout)
    assert "my run/run_1/stat_3.csv" in seen
    assert tuple(seen[seen.index("--") + 1 :]) == COMMAND
