"""Measures PyTorch operations and Triton kernels with their changes on this GPU: times, and counters of their kernels.

python eval/frameworks/record.py --out DIR [--seconds 300]

Requires PyTorch, Triton and ncu. Writes times.csv and counters.csv.gz to DIR, the first one while measuring.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jitted  # noqa: F401  fills the table of cases
import operations  # noqa: F401  as well
import torch
from cases import CASES, Call, Case

HERE = Path(__file__).resolve().parent
COUNTERS = HERE.parent / "interventions" / "counters.txt"
RUNS, LEAST_MS = 7, 2.0
_BROKEN = (RuntimeError, TypeError, ValueError, AttributeError)


def changes(made: Case) -> Iterator[tuple[str, int, Call, float]]:
    """Yield name, whether the work is kept, call, and work of the operation and of each of its changes."""
    yield "base", 1, made.base, 1.0
    for keeps, some in ((1, made.fixes), (0, made.removals)):
        for what, call in some.items():
            yield (what, keeps, *(call if isinstance(call, tuple) else (call, 1.0)))


def timed(call: Call) -> list[float]:
    """Time of a call in microseconds, from replays of a CUDA graph with many calls, without launch overhead."""
    for _ in range(3):
        call()
    with torch.cuda.stream(torch.cuda.Stream()):
        call()
    torch.cuda.synchronize()
    often = max(1, int(LEAST_MS / max(_replayed(_captured(call, 1), 1), 1e-3)))
    repeats = min(often, 100)
    graph, times = _captured(call, repeats), max(1, often // repeats)
    return [1e3 * _replayed(graph, times) / times / repeats for _ in range(RUNS)]


def _captured(call: Call, repeats: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    return graph


def _replayed(graph: torch.cuda.CUDAGraph, times: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(times):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def time_all(out: Path, until: float) -> None:
    with (out / "times.csv").open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["kernel", "what", "keeps_work", "time_us", "least_us", "most_us", "n", "work"])
        for name, make in CASES.items():
            if time.monotonic() > until:
                print(f"no time for {name}", flush=True)
                continue
            try:
                for what, keeps, call, work in changes(make()):
                    runs = sorted(timed(call))
                    figures = [f"{us:.3f}" for us in (runs[RUNS // 2], runs[0], runs[-1])]
                    writer.writerow([name, what, keeps, *figures, RUNS, work])
                    text.flush()
            except _BROKEN as problem:
                print(f"left out {name}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
            torch.cuda.empty_cache()


def call_all() -> None:
    """Call each operation once, in a range with its name, for the profiler."""
    for name, make in CASES.items():
        try:
            base = make().base
            base()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            torch.cuda.nvtx.range_push(name)
            base()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            torch.cuda.cudart().cudaProfilerStop()
        except _BROKEN as problem:
            print(f"not counted {name}: {problem}", flush=True)
        torch.cuda.empty_cache()


def count_all(out: Path, seconds: float) -> None:
    page = out / "counters.csv"
    metrics = ",".join(COUNTERS.read_text(encoding="utf-8").split())
    words = [os.environ.get("NCU", "ncu"), "--profile-from-start", "off", "--nvtx", "--metrics", metrics]
    words += ["--replay-mode", "kernel", "--cache-control", "all", "--clock-control", "none", "--csv", "--page", "raw"]
    words += [
        "--print-units",
        "base",
        "--log-file",
        str(page),
        sys.executable,
        str(HERE / "record.py"),
        "--out",
        str(out),
        "--once",
    ]
    try:
        subprocess.run(words, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        print("counting was interrupted: finished counts are kept", flush=True)
    text = page.read_bytes() if page.exists() else b""
    (out / "counters.csv.gz").write_bytes(gzip.compress(text, mtime=0))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--once", action="store_true", help="only call each operation once, for a profiler")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.once:
        call_all()
        return 0
    start = time.monotonic()
    time_all(options.out, start + 0.5 * options.seconds)
    print(f"timed after {time.monotonic() - start:.0f} s", flush=True)
    count_all(options.out, options.seconds - (time.monotonic() - start))
    print(f"counted after {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
