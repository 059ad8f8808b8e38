"""Run a version as judge.py does, and print torch.profiler's tables for at most the first seconds of the second call.

python profiled.py PROGRAM VERSION [--seed S] [--seconds T]

Tables of a long call are made from millions of events, so the profiler stops after T seconds, and with it the program.
"""

import argparse
import random
import re
import signal
import sys
import tempfile
from pathlib import Path

import judge
import torch
from torch.profiler import ProfilerActivity, profile

ROWS = 20
WIDTH = 70
KERNELS = 3
FUNCTION = re.compile(r"(?:void )?(?:[\w~]+::|\(anonymous namespace\)::)*(\w+)")


def print_tables(profiler):
    """The operators and kernels with most time on the device, and those with most time on the host."""
    averages = profiler.key_averages()
    for key in ("self_cuda_time_total", "self_cpu_time_total"):
        print(f"Sorted by {key}:")
        print(averages.table(sort_by=key, row_limit=ROWS, max_name_column_width=WIDTH))
    kernels = [row for row in averages if row.device_type == torch.autograd.DeviceType.CUDA]
    longest = sorted(kernels, key=lambda row: -row.self_device_time_total)
    functions = [match[1] for row in longest if (match := FUNCTION.match(row.key)) and "Mem" not in match[1]]
    print("Functions of the longest kernels:", ", ".join(list(dict.fromkeys(functions))[:KERNELS]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("version", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    hidden = judge.load("hidden", options.program.resolve() / "hidden.py")
    chosen = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        run = judge.runner(hidden, options.version, Path(folder), device)
        first, case = (hidden.make(chosen.randrange(1 << 30), False) for _ in range(2))
        run(first)
        judge.wait(device)
        profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

        def finish(*_):
            judge.wait(device)
            profiler.stop()
            print_tables(profiler)
            sys.exit(0)  # the program may be in the middle of a call

        signal.signal(signal.SIGALRM, finish)
        profiler.start()
        signal.setitimer(signal.ITIMER_REAL, options.seconds)
        run(case)
        signal.setitimer(signal.ITIMER_REAL, 0)
        finish()


if __name__ == "__main__":
    main()
