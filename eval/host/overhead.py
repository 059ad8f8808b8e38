"""Measure what recording costs a program: its loop with and without a sampler, with and without the recorder.

    python eval/host/overhead.py [--rate N] [--phases N] [--seconds S] [--runs N] [--only NAME ...]

Needs an NVIDIA GPU, PyTorch, rooflens and py-spy. One process runs the loop of a program again and again. py-spy is
attached to it, and is stopped in every other phase, so that both kinds of phases share everything else. The same is
done under the recorder, without and with the stacks of calls. Printed for each program, in % of the loop: what sampling
adds (the median over neighbouring phases, with its standard error), and what the recorder adds without sampling.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = {
    "python_loop": [],
    "item_sync": [],
    "tokenising": [],
    "weight_averaging": [],
    "numpy_metric": [],
    "gil_thread": [],
    "many_threads": ["--threads", "16"],
    "slow_workers": ["--workers", "4"],
}


class Clock:
    """In place of the module ``time`` of a program, which reads its clock before and after its loop."""

    def __init__(self):
        self.read = []

    def perf_counter(self):
        self.read.append(time.perf_counter())
        return self.read[-1]

    def __getattr__(self, name):
        return getattr(time, name)


def loop_seconds(module, arguments):
    """The seconds of the loop of a program."""
    sys.argv, module.time = [module.__file__, *arguments], Clock()
    with contextlib.redirect_stdout(io.StringIO()):
        module.main()
    return module.time.read[-1] - module.time.read[-2]


@contextlib.contextmanager
def sampler(rate, folder):
    """py-spy, attached to this process with the options that rooflens gives it."""
    options = ["--nonblocking", "--idle", "--threads", "--subprocesses", "--format", "chrometrace"]
    argv = ["py-spy", "record", *options, "--rate", str(rate), "--output", f"{folder}/out", "--pid", str(os.getpid())]
    with Path(folder, "log").open("w") as log:
        running = subprocess.Popen(argv, stdout=log, stderr=log)
    end = time.monotonic() + 20
    while "Sampling" not in Path(folder, "log").read_text() and time.monotonic() < end:
        time.sleep(0.02)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGCONT)
        running.send_signal(signal.SIGINT)
        running.wait()


def phases(name, options):
    """Seconds of a step without and with sampling, in turn."""
    file = HERE / "programs" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    few = 6
    for _ in range(3):  # the last of these knows how long a step takes
        per_step = loop_seconds(module, [*PROGRAMS[name], "--steps", str(few)]) / few
    steps = max(few, round(options.seconds / max(per_step, 1e-4)))
    arguments = [*PROGRAMS[name], "--steps", str(steps)]
    times = []
    with tempfile.TemporaryDirectory() as folder, sampler(options.rate, folder) as running:
        for number in range(options.phases):
            running.send_signal(signal.SIGCONT if number % 2 else signal.SIGSTOP)
            times.append(loop_seconds(module, arguments) / steps)
    return times


def ratios(times):
    """How much longer each sampled phase took than the mean of its neighbours, in %."""
    return [100 * (times[n] / statistics.mean((times[n - 1], times[n + 1])) - 1) for n in range(1, len(times) - 1, 2)]


def measure(name, options, environment):
    """The seconds of the phases of a program in a process of its own."""
    argv = [sys.executable, __file__, "--inside", name, "--rate", str(options.rate)]
    argv += ["--phases", str(options.phases), "--seconds", str(options.seconds)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--phases", type=int, default=41, help="odd: the first and the last are not sampled")
    parser.add_argument("--seconds", type=float, default=0.4, help="of the loop in each phase")
    parser.add_argument("--runs", type=int, default=1, help="processes of each kind")
    parser.add_argument("--kinds", nargs="*", default=["plain", "recorder", "recorder with stacks"])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(phases(options.inside, options)))
        return
    from rooflens.tools.running.drivers.cupti.build import recorder  # the process inside needs none of it

    library = recorder(sys.executable)
    print(f"{options.rate} samples a second; added to the loop, in %")
    for name in options.only or PROGRAMS:
        times = {kind: [] for kind in options.kinds}
        for _ in range(options.runs):
            for kind, runs in times.items():
                with tempfile.TemporaryDirectory() as folder:
                    recorded = library.environment(folder, timeline=True, stacks="stacks" in kind)
                    runs.append(measure(name, options, {} if kind == "plain" else recorded))
        loops = {kind: statistics.median(t for run in runs for t in run[::2]) for kind, runs in times.items()}
        for kind, runs in times.items():
            added = [ratio for run in runs for ratio in ratios(run)]
            error = 1.25 * statistics.stdev(added) / len(added) ** 0.5
            loop = 100 * (loops[kind] / loops[options.kinds[0]] - 1)
            print(f"{name}, {kind}: {loop:+.1f}; sampling {statistics.median(added):+.1f} +- {error:.1f}", flush=True)
        print(
            "    ms a step:",
            {kind: [round(1e3 * statistics.median(run), 3) for run in runs] for kind, runs in times.items()},
        )


if __name__ == "__main__":
    main()
