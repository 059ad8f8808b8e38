"""Compare what rooflens expects from the removal of a cause with what its removal gives.

    python eval/host/gains.py [--only NAME ...] [--repeat N]

Needs an NVIDIA GPU, PyTorch, rooflens and py-spy. ``without`` in programs.toml replaces the cause of a program. One
process runs its loop as it is and without the cause in turn, in ranges of these names, and is recorded once: processes
on shared machines differ by 10 to 50 %, and recording makes both slower. What is expected follows from the ranges with
the cause.
"""

import argparse
import contextlib
import importlib.util
import io
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from record import HERE, rooflens, rows

WITH, WITHOUT = "with the cause", "without the cause"


class Clock:
    """In place of the module ``time`` of a program, which reads its clock before and after its loop."""

    def __init__(self, title):
        self.title, self.read = title, 0

    def perf_counter(self):
        """The time; the first reading begins the range, the second one ends it."""
        from torch.cuda import nvtx, synchronize

        synchronize()
        nvtx.range_pop() if self.read else nvtx.range_push(self.title)
        self.read += 1
        return time.perf_counter()

    def __getattr__(self, name):
        return getattr(time, name)


def run(file, title, change):
    """Run a program in this process after the change."""
    spec = importlib.util.spec_from_file_location(file.removesuffix(".py"), HERE / "programs" / file)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    exec(change, {"program": program})
    program.time, sys.argv = Clock(title), [file]
    with contextlib.redirect_stdout(io.StringIO()):
        program.main()


def main():
    """Record and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    programs = tomllib.loads((HERE / "programs.toml").read_text())
    if options.run:
        for _ in range(options.repeat):
            for title, change in ((WITH, ""), (WITHOUT, programs[options.run]["without"])):
                run(programs[options.run]["file"], title, change)
        return
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder)
        for name in options.only or [name for name, one in programs.items() if "without" in one]:
            inner = [sys.executable, __file__, "--run", name, "--repeat", str(options.repeat)]
            rooflens(store, "profile", "metrics=timeline", f"name={name}", "wait_s=300", "--", *inner)
            found, without = (rooflens(store, "timeline", name, f"range={title}") for title in (WITH, WITHOUT))
            if "wall_ms" not in found:
                print(f"{name}: {found}", flush=True)
                continue
            functions = {programs[name]["function"], *programs[name]["also"]}
            row = next((row for row in rows(found) if row["function"] in functions), {})
            print(
                f"{name}: x {found['wall_ms'] / without['wall_ms']:.3f} measured "
                f"({found['wall_ms']:.0f} and {without['wall_ms']:.0f} ms); "
                f"{row.get('expected')} expected, at most {row.get('at_most')}",
                flush=True,
            )


if __name__ == "__main__":
    main()
