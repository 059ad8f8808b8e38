"""What the tests on a GPU share: running to the end while listening, and comparing what two ways of measuring gave."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflens.analysis.store.store import Store
from rooflens.tools.base.results import Table
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.profile_command import profile_command
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running.run_state import FINAL, read_state

_POLL_S = 0.3
LAUNCH_OF = re.compile(r"launch (\d+) of (\d+)")


@dataclass
class Ended:
    """A run that has ended, with everything that it said it was doing."""

    result: RunResult
    wall_s: float
    """From the call to the end, import included."""
    took_s: dict[str, float]
    """Step -> seconds."""
    said: list[str] = field(default_factory=list)

    def launches_told(self) -> list[tuple[int, int]]:
        """The launches that its progress named, and of how many."""
        return [(int(m[1]), int(m[2])) for text in self.said if (m := LAUNCH_OF.search(text))]


def profiled(store: Store, command: list[str], **asked: Any) -> Ended:
    """profile_command to its end."""
    began, said = time.monotonic(), []
    result = profile_command(store, command, **{"wait_s": 0, **asked})
    while result.state not in FINAL:
        said.append(result.progress)
        time.sleep(_POLL_S)
        result = get_run(store, result.run_id)
    took_s = read_state(store.run_folder(result.run_id)).took_s
    return Ended(result, time.monotonic() - began, took_s, list(dict.fromkeys(said)))


def records(table: Table) -> list[dict[str, Any]]:
    """The rows of a table by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def asked(store: Store, workload: str | None, sql: str) -> list[list[Any]]:
    """The rows of a question about one workload."""
    assert workload is not None
    return query_counters(store, sql, workload, limit=10_000).table.rows


def stated(output: str) -> int:
    """How many launches the program says that it made."""
    found = re.search(r"^launched (\d+)$", output, re.MULTILINE)
    assert found, output
    return int(found[1])


def deviations(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Name -> how far the second figure is from the first, in percent of it; both must have the same names."""
    assert one.keys() == other.keys(), (sorted(one), sorted(other))
    return {name: 100 * (other[name] / value - 1) for name, value in one.items()}


def told(title: str, figures: Mapping[str, object]) -> None:
    """Print what was measured."""
    print(f"\n[{title}] " + ", ".join(f"{name} {_shown(value)}" for name, value in figures.items()))


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def python_with(module: str, interpreters: Iterable[str] | None = None) -> str | None:
    """An interpreter that has a module and sees a GPU with it where it is PyTorch; None where there is none."""
    test = f"import {module}" + ("; assert torch.cuda.is_available()" if module == "torch" else "")
    known = [sys.executable, shutil.which("python3"), "/usr/bin/python3"] if interpreters is None else interpreters
    for python in dict.fromkeys(p for p in known if p):
        try:
            if not subprocess.run([python, "-c", test], capture_output=True, timeout=120).returncode:
                return python
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None


def wall_s(run: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    began = time.monotonic()
    run()
    return time.monotonic() - began


def printed_by(store: Store, result: RunResult, step: str = "timing") -> str:
    """What a run's program printed in a step."""
    log: Path = store.run_folder(result.run_id) / "logs" / f"{step}.out"
    return log.read_text(errors="replace") if log.is_file() else ""
