"""Judge one version of a program: right for inputs that it has not seen, and how long it takes.

python judge.py PROGRAM VERSION [--seed S] [--repeat R] [--small] [--no-check]

PROGRAM contains hidden.py with ``make(seed, small)``, which returns a case, and ``check(case, result, device)``, which
returns what is wrong or None. VERSION contains main.py with ``run(case, device)``. Every timed call has a case of its
own, so that kept results do not help, and the whole device is waited for. The last line printed is the report as JSON.
With --no-check nothing but the version runs, for profilers. A program in CUDA has hidden.py with ``build(version,
folder)`` and ``run(folder, case)`` in addition.
"""

import argparse
import importlib.util
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import torch


def load(name, path):
    """The module in a file, whose folder is searched for its other modules."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def runner(hidden, version, folder, device):
    """The function that runs a case: the version's own, or that of hidden.py for what was built in ``folder``."""
    if hasattr(hidden, "build"):
        hidden.build(version.resolve(), folder)
        return lambda case: hidden.run(folder, case)
    program = load("main", version.resolve() / "main.py")
    return lambda case: program.run(case, device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("version", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    hidden = load("hidden", options.program.resolve() / "hidden.py")
    with tempfile.TemporaryDirectory() as folder:
        run = runner(hidden, options.version, Path(folder), device)
        times, problem, chosen = [], None, random.Random(options.seed)
        # Cases are made before the first call, so that a profile of the calls has nothing else between them.
        cases = [hidden.make(chosen.randrange(1 << 30), options.small) for _ in range(options.repeat + 1)]
        for number, case in enumerate(cases):
            wait(device)
            begin = time.perf_counter()
            result = run(case)
            wait(device)
            took = time.perf_counter() - begin
            if not options.no_check:
                problem = problem or hidden.check(case, result, device)
            if number:  # the first call compiles and loads
                times.append(took)
    seconds = sorted(times)[len(times) // 2] if times else None
    print()
    print(json.dumps({"right": problem is None, "problem": problem, "seconds": seconds, "times_s": times}))


if __name__ == "__main__":
    main()
