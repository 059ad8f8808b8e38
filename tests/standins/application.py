"""A program to be profiled: says which kernels it launched to whoever listens, and can fail, fork or take its time."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    """Launches go to PID.jsonl in the folder named by ROOFLENS_STANDIN_LAUNCHES, which a stand-in sets."""
    options = argparse.ArgumentParser()
    options.add_argument("--launch", action="append", default=[], help="name, or JSON of a launch")
    options.add_argument("--fork", action="store_true", help="a second process launches the same")
    options.add_argument("--fail-in", metavar="TEXT", help="status 5 where the profiler writes to a path with TEXT")
    options.add_argument("--sleep", type=float, default=0)
    options.add_argument("--say", default="")
    options.add_argument("--log", type=Path, help="append a line per run")
    given = options.parse_args()
    if given.log:
        with given.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"argv": sys.argv[1:], "cwd": str(Path.cwd()), "env": sorted(os.environ)}) + "\n")
    if given.say:
        print(given.say)
    if given.fork:
        child = os.fork()
        if not child:
            _launch(given.launch)
            os._exit(0)
        os.waitpid(child, 0)
    _launch(given.launch or None)
    time.sleep(given.sleep)
    if given.fail_in and given.fail_in in os.environ.get("ROCPROF_OUTPUT_PATH", ""):
        print("the program broke down", file=sys.stderr)
        return 5
    return 0


def _launch(names: list[str] | None) -> None:
    """Say what was launched; None leaves it to the stand-in."""
    folder = os.environ.get("ROOFLENS_STANDIN_LAUNCHES")
    if folder is None or names is None:
        return
    lines = [name if name.startswith("{") else json.dumps({"kernel": name}) for name in names]
    (Path(folder) / f"{os.getpid()}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
