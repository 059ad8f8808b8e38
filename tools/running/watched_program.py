"""Run a program whose Python processes write their own stacks.

sampled_program.py uses this file, with the standard library alone, where no process may read the memory of another.
Python loads in_process/sitecustomize.py in each of its processes. What they write is kept in the format of py-spy.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def run(samples: Path, rate: str, command: list[str]) -> tuple[int, int]:
    """Run the command; return its status (negative for a signal), and the zero of the times in ns of Unix time."""
    began = time.time_ns()
    path = (str(Path(__file__).with_name("in_process")), os.environ.get("PYTHONPATH"))
    with tempfile.TemporaryDirectory(dir=samples.parent) as folder:
        own = {"ROOFLENS_STACKS": folder, "ROOFLENS_RATE": rate, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        child = subprocess.Popen(command, env={**os.environ, **own})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda received, _: child.send_signal(received))
        status = child.wait()
        ended = time.time_ns()
        events: list[dict[str, Any]] = []
        for file in Path(folder).glob("*.stacks"):
            with contextlib.suppress(TypeError, ValueError):  # what is wrong there must not hide how the program ended
                events += _events(file, began, ended)
    samples.write_text(json.dumps(events), encoding="utf-8")
    return status, began


def _events(file: Path, began: int, ended: int) -> Iterator[dict[str, Any]]:
    """Yield the ends and begins of frames of one process."""
    opened: dict[int, list[Any]] = {}
    lines = file.read_text(encoding="utf-8").split("\n")
    changes = [json.loads(line) for line in lines[:-1]]  # the last one is empty, or cut
    changes += [[ended, thread, []] for thread in {thread for _, thread, _ in changes}]
    for now, thread, stack in changes:
        roots = [[f'process {file.stem}:""', "", 0], [f"thread ({thread}): ", "", 0]]
        frames = [("E", frame) for frame in reversed(opened.get(thread, []))]
        opened[thread] = [*roots, *stack] if stack else []
        for kind, (function, place, line) in [*frames, *(("B", frame) for frame in opened[thread])]:
            where = {"args": {"filename": place, "line": line}, "tid": f"{file.stem}/{thread}"}
            yield {"ph": kind, "ts": (now - began) // 1000, "name": function, **where}
