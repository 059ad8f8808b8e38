"""What a player learns about a version besides its time: nothing, a vendor's text, counters, or a round."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rooflens.tools.running import processes

PROGRAMS = Path(__file__).resolve().parent / "programs"
ARMS = ("none", "vendor", "raw", "rooflens")
LAUNCHES_COUNTED = 6
_FUNCTIONS = re.compile(r"^Functions of the longest kernels: (\w+(?:, \w+)*)$", re.MULTILINE)
_RAW = (
    "SELECT d.kernel, count(*) AS launches, sum(d.duration_ns) AS total_ns, avg(COLUMNS(c.* EXCLUDE (workload, "
    "dispatch_id, kernel, duration_ns))) FROM dispatches AS d LEFT JOIN counters AS c USING (dispatch_id) "
    "GROUP BY d.kernel ORDER BY total_ns DESC LIMIT 12"
)


@dataclass(frozen=True)
class Machine:
    """Where versions run: the variables that choose a GPU, and how long a command may take."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    judge_s: float = 600.0
    profile_s: float = 240.0

    def output(self, command: Sequence[str], limit_s: float | None = None) -> str:
        """What a command prints, on both streams if it fails; why it printed nothing, if it cannot run."""
        limit_s = limit_s or self.profile_s
        mark = secrets.token_hex(8)
        variables = {**self.environment, processes.MARKER: mark}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, env=variables)
        except subprocess.TimeoutExpired:
            return f"{command[0]} took longer than {limit_s:.0f} s"
        except OSError as problem:
            return f"{command[0]} cannot be started: {problem.strerror}"
        finally:
            processes.end_all(mark, 0)  # what a profiler started outlives it, with the memory that it has on the GPU
        return done.stdout if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"


@dataclass(frozen=True)
class Version:
    """A version of a program, and the folder of the workload stores of its game."""

    program: Path
    folder: Path
    store: Path

    def command(self, *options: str, script: str = "judge.py") -> list[str]:
        """The command that runs it."""
        # Without -B, Python could use the bytecode of an earlier version whose files have the same size and second.
        return [sys.executable, "-B", str(PROGRAMS / script), str(self.program), str(self.folder), *options]


def feedback(arm: str, version: Version, baseline: Version | None, machine: Machine, characters: int) -> str:
    """What the arm says about a version; ``baseline`` is what a round compares with."""
    command = version.command("--no-check", "--repeat", "1")
    if arm == "vendor":
        half = characters // 2
        profile = machine.output(version.command(script="profiled.py"))
        return f"{profile[:half]}\n{machine.output(_counter_command(profile, command))[-half:]}"
    if arm == "raw":
        machine.output(_rooflens("profile", version, f"name={version.folder.name}", "--", *command), 700)
        return machine.output(_rooflens("sql", version, version.folder.name, _RAW))
    if arm == "rooflens":
        return _round(version, baseline, machine, command)
    return ""


def _counter_command(profile: str, command: Sequence[str]) -> list[str]:
    """Nsight Compute on the first launches of the kernels that matter, or of any, with its basic sections."""
    named = _FUNCTIONS.search(profile)
    chosen = ["--launch-skip", "20"]
    if named:
        chosen = ["--kernel-name", f"regex:^({named[1].replace(', ', '|')})$"]
    words = ["ncu", "--set", "basic", "--target-processes", "all", *chosen, "--launch-count", str(LAUNCHES_COUNTED)]
    return [*words, "--kill", "on", *command]


def _rooflens(verb: str, version: Version, *words: str) -> list[str]:
    return [sys.executable, "-m", "rooflens", "--store", str(version.store), verb, *words]


def _round(version: Version, baseline: Version | None, machine: Machine, command: Sequence[str]) -> str:
    """A round against the baseline, which is recorded first where the store lacks it, and the lines of the host."""
    name, against = version.folder.name, []
    if baseline is not None and baseline.folder != version.folder:
        first, against = baseline.folder.name, [f"baseline={baseline.folder.name}"]
        known = machine.output(_rooflens("sql", version, first, "SELECT 1 AS known", "--csv"))
        if not known.startswith("known"):
            words = baseline.command("--no-check", "--repeat", "1")
            machine.output(_rooflens("profile", version, "metrics=timeline", f"name={first}", "--", *words), 700)
    text = machine.output(_rooflens("round", version, f"name={name}", *against, "--", *command), 700)
    lines = machine.output(_rooflens("hotspots", version, name, "by=host_line"))
    return f"{text}\n\n{lines}"
