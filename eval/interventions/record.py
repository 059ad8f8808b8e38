"""Generates kernels from a seed and measures them on this GPU: builds, times and counts, in one command.

python eval/interventions/record.py --seed 3 --count 80 --out DIR [--seconds 440]

Requires only Python, nvcc and ncu. Writes times.csv, scales.txt, counters.csv.gz and log.txt to DIR while measuring, so
that results are kept if time runs out or the run is interrupted. `score.py DIR` scores them on any machine.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from interventions import merge, suite  # noqa: E402

COUNTERS = HERE / "counters.txt"
RECORDED = HERE / "h200_counters.csv.gz"
"""Contains what ncu does not write with single counters: the attributes of the device."""
EXAMPLES = HERE.parents[1] / "examples" / "kernels"
PARTS = 8
_BUILD, _TIME = 0.45, 0.3
"""Maximum shares of the time for building, and of the remaining time for timing."""
_ONE_PART_S = 15.0


@dataclass(frozen=True)
class Bench:
    """The paths and the deadline of a recording."""

    work: Path
    out: Path
    arch: str
    end: float

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def say(self, text: str) -> None:
        """Print a message and write it to the log immediately."""
        print(text, flush=True)
        with (self.out / "log.txt").open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def run(self, words: list[str], seconds: float, to: str | None = None) -> subprocess.CompletedProcess[str] | None:
        """Run a program and return it with its output; None if time ran out. ``to`` is a file for its output."""
        if seconds <= 0:
            return None
        with (self.work / to if to else Path(os.devnull)).open("w", encoding="utf-8") as file:
            try:
                return subprocess.run(
                    words, cwd=self.work, stdout=file if to else subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True, errors="replace", timeout=seconds, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return None


def build(bench: Bench, seconds: float) -> bool:
    """Compile all source files in parallel, and link those that compile."""
    nvcc = os.environ.get("NVCC", "nvcc")
    until = time.monotonic() + seconds
    include = [f"-I{HERE}", f"-I{EXAMPLES}"]

    def compiled(source: Path) -> Path | None:
        words = [nvcc, "-std=c++20", "-O3", "-lineinfo", f"-arch={bench.arch}", *include, "-c", str(source)]
        done = bench.run([*words, "-o", str(source.with_suffix(".o"))], until - time.monotonic())
        if done is not None and done.returncode == 0:
            return source.with_suffix(".o")
        bench.say(f"left out {source.name}: {done.stderr[:400] if done else 'no time'}")
        return None

    sources = [HERE / "main.cu", *sorted(bench.work.glob("cases_*.cu"))]
    (bench.work / "main.cu").write_text(sources[0].read_text(encoding="utf-8"), encoding="utf-8")
    sources[0] = bench.work / "main.cu"
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = [str(made) for made in pool.map(compiled, sources) if made]
    done = bench.run([nvcc, f"-arch={bench.arch}", *objects, "-o", "interventions"], max(30.0, seconds / 4))
    if done is None or done.returncode:
        bench.say(f"not linked: {done.stderr[:400] if done else 'no time'}")
        return False
    return True


def timed(bench: Bench, seconds: float) -> None:
    """Time every kernel with its interventions, and write a line for each measurement."""
    files = [str(bench.out / "times.csv"), str(bench.out / "scales.txt")]
    done = bench.run(["./interventions", "time", *files, str(int(seconds))], seconds + 20)
    bench.say(done.stdout.strip() + done.stderr.strip() if done else "timing was interrupted: finished times are kept")


def counted(bench: Bench) -> None:
    """Collect counters for every timed kernel, in parts."""
    ncu, metrics = os.environ.get("NCU", "ncu"), ",".join(COUNTERS.read_text(encoding="utf-8").split())
    pages: list[Path] = []
    constants = attributes()
    for part in range(PARTS):
        if bench.left < _ONE_PART_S:
            bench.say(f"no time to count part {part}")
            break
        page, order = bench.work / f"part_{part}.csv", bench.work / f"order_{part}.txt"
        words = [ncu, "--metrics", metrics, "--replay-mode", "kernel", "--cache-control", "all"]
        words += ["--clock-control", "none", "--kernel-name-base", "function", "--kernel-name", "demand", "--csv"]
        words += ["--page", "raw", "--print-units", "base", "--log-file", str(page), "./interventions", "once"]
        words += [str(bench.out / "scales.txt"), str(part), str(PARTS)]
        done = bench.run(words, bench.left, order.name)
        if not page.exists():
            bench.say(f"ncu wrote nothing for part {part}: {done.stderr[-400:] if done else 'no time'}")
            continue
        for line in page.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("==ERROR", "==WARNING")):
                bench.say(line[:300])
        pages += [page, order]
        merge.main(bench.out / "counters.csv.gz", pages, constants)


def attributes() -> dict[str, tuple[str, str]]:
    """Unit and value of each attribute of an H200; empty for other devices, which must then be given at the import."""
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    with gzip.open(RECORDED, "rt", encoding="utf-8", newline="") as text:
        rows = csv.reader(text)
        names, units, values = next(rows), next(rows), next(rows)
    known = {n: (u, v) for n, u, v in zip(names, units, values, strict=True) if n.startswith("device__attribute_")}
    return known if known["device__attribute_display_name"][1] in told.stdout.splitlines() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=440)
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.out.resolve(), options.arch, start + options.seconds)
        files = min(options.count, 2 * (os.cpu_count() or 1))
        suite.write(bench.work, files, suite.some_of(options.seed, options.count))
        if not build(bench, _BUILD * options.seconds):
            return 1
        bench.say(f"built after {time.monotonic() - start:.0f} s")
        timed(bench, _TIME * bench.left)
        bench.say(f"timed after {time.monotonic() - start:.0f} s")
        counted(bench)
        bench.say(f"counted after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
