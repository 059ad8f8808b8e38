"""A program that STANDS IN for perf: it takes the arguments of ``perf stat``, runs the command, writes the format."""

from __future__ import annotations

import sys
from pathlib import Path

_SCRIPT = """#!{python} -IS
# Stand-in for perf, written by a test: the clock is real, the counts are made up.
import subprocess, sys, time

arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("perf version 6.1.0")
elif arguments[:1] == ["stat"] and "--" in arguments:
    options, command = arguments[1:arguments.index("--")], arguments[arguments.index("--") + 1:]
    assert options[0:2] == ["-x", ","] and options[2] == "-o" and options[4] == "-e" and len(options) == 6, options
    start = time.time_ns()
    status = subprocess.call(command)
    elapsed = time.time_ns() - start
    with open(options[3], "w") as file:
        file.write("# started on Fri Nov 20 00:00:00 2026\\n\\n")
        for event in options[5].split(","):
            if event == "duration_time":
                file.write(f"{{elapsed}},ns,duration_time,{{elapsed}},100.00,,\\n")
            elif event == "task-clock":
                file.write(f"{{elapsed / 2e6}},msec,task-clock,{{elapsed // 2}},100.00,,\\n")
            elif event == "cycles":
                file.write("<not supported>,,cycles,0,100.00,,\\n")
            else:
                file.write(f"4711,,{{event}},{{elapsed}},100.00,,\\n")
    sys.exit(status if status >= 0 else 128 - status)
else:
    sys.exit("usage: perf [--version] COMMAND")
"""


def install(folder: Path) -> Path:
    """Put the stand-in into ``folder`` and return the folder, which belongs first in PATH."""
    folder.mkdir(exist_ok=True)
    program = folder / "perf"
    program.write_text(_SCRIPT.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    return folder
