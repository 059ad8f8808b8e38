"""Records programs with a known application-level bottleneck on a GPU, and scores compute_timeline on them.

    python eval/timelines/run.py --out DIR     on a machine with an NVIDIA GPU, nvcc and PyTorch: times, records, scores
    python eval/timelines/run.py --score DIR   scores the recording in DIR (default: the one next to this file)

DIR contains ``measured.csv`` (times per step in us, without and with the recorder) and ``traces.tar`` (output of the
recorder).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "h200"
MEASURED, TRACES = "measured.csv", "traces.tar"
STEPS, TRACED_STEPS = 30, 12
_ONE_S, _WAIT_S = 60, 50
_TOLERANCE = 1.1
"""Relative difference between two runs of a program."""


@dataclass(frozen=True)
class Known:
    """A program as described in programs.toml."""

    name: str
    source: str
    truth: list[str]
    does: str
    fix: str
    warm_up: int = 0


@dataclass(frozen=True)
class Measured:
    """Times per step in us: the original program, with its fix, and while recording the original."""

    program: str
    base_us: float | None
    fixed_us: float | None
    recorded_us: float | None

    @property
    def gain(self) -> float | None:
        """Speed-up by the fix."""
        return self.base_us / self.fixed_us if self.base_us and self.fixed_us else None

    @property
    def overhead_pct(self) -> float | None:
        """Overhead of recording per step, in % of the step without it."""
        return 100 * (self.recorded_us / self.base_us - 1) if self.base_us and self.recorded_us else None


@dataclass(frozen=True)
class Scored:
    """The result of compute_timeline for a program, with the measured times."""

    known: Known
    measured: Measured
    verdict: str
    confidence: float
    bound: float | None
    steps: int
    warm_up: int
    step_us: float | None

    @property
    def right(self) -> bool:
        """Whether the verdict names what the fix removes, and warm-up was detected."""
        return self.verdict in self.known.truth and self.warm_up >= self.known.warm_up

    @property
    def bound_holds(self) -> bool | None:
        """Whether the measured gain is below the bound; None if there is no bound or no gain."""
        gain = self.measured.gain
        return None if gain is None or self.bound is None else gain <= self.bound * _TOLERANCE


COLUMNS: Mapping[str, str] = {
    "program": "", "truth": "", "verdict": "", "right": "", "confidence": "0-1", "bound": "x", "gain": "x",
    "bound_holds": "", "steps": "", "warm_up": "steps", "step": "us", "base": "us", "fixed": "us", "recorded": "us",
    "overhead": "%",
}  # fmt: skip
"""Columns of the table with their units."""


def known() -> dict[str, Known]:
    """All programs by name."""
    data = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    return {name: Known(name=name, **fields) for name, fields in data.items()}


# ---- on the GPU ----


def recorded(out: Path, names: Sequence[str], budget_s: float) -> None:
    """Time and record programs; those that do not start within the budget are reported and skipped."""
    began, out = time.monotonic(), out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        binary = work / "programs"
        compiler = subprocess.Popen(
            ["nvcc", "-O2", "-std=c++17", "-arch=native", "-o", str(binary), str(HERE / "programs.cu")]
        )
        commands = {"torch": [sys.executable, str(HERE / "programs.py")], "cuda": [str(binary)]}
        of = {source: [name for name in names if known()[name].source == source] for source in commands}
        times = _timed(commands["torch"], of["torch"])
        if compiler.wait() == 0:
            times += _timed(commands["cuda"], of["cuda"])
        print(f"timed after {time.monotonic() - began:.0f} s")
        rows = []
        for name in names:
            if time.monotonic() - began > budget_s:
                print(f"no time left to record {name}")
                continue
            _trace(commands[known()[name].source], name, work)
            told = work / f"{name}.json"
            step = _said(told.read_text()) if told.exists() else []
            rows.append(_row(name, [*times, *step]))
        _write(out / MEASURED, rows)
        with tarfile.open(out / TRACES, "w") as tar:
            for file in sorted(work.glob("*.record.gz")):
                tar.add(file, file.name)
    print(f"recorded after {time.monotonic() - began:.0f} s, traces of {(out / TRACES).stat().st_size / 1e6:.2f} MB")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * _ONE_S, check=False)
    if done.returncode:
        print(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    return done


def _timed(program: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """Time some programs with and without their fix, without the recorder."""
    return _said(_run([*program, "time", str(STEPS), *names]).stdout) if names else []


def _said(text: str) -> list[dict[str, Any]]:
    """Parse the JSON lines that programs print."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _trace(program: Sequence[str], name: str, work: Path) -> None:
    """Record a program with the tool; ``keep``, which runs the program, keeps the output of the recorder."""
    command = [sys.executable, __file__, "--keep", str(work / name), "--", *program, name, "base", str(TRACED_STEPS)]
    arguments = {"command": command, "metrics": ["timeline"], "name": name, "timeout_s": _ONE_S, "wait_s": _WAIT_S}
    call = [sys.executable, "-m", "rooflens", "call", "--store", str(work / "store"), "profile_command"]
    done = _run([*call, json.dumps(arguments)])
    state = json.loads(done.stdout).get("state") if done.stdout.startswith("{") else None
    if state != "done":
        print(f"{name}: {state}: {done.stdout[-500:]}")


def keep(prefix: Path, command: Sequence[str]) -> int:
    """Run a program, and keep its output and its recording."""
    with Path(f"{prefix}.json").open("w", encoding="utf-8") as said:
        code = subprocess.run(command, stdout=said, check=False).returncode
    files = sorted(Path(os.environ["ROOFLENS_RECORD_DIR"]).glob("*.record"), key=lambda file: file.stat().st_size)
    if files:
        with files[-1].open("rb") as source, gzip.open(f"{prefix}.record.gz", "wb", 9) as kept:
            shutil.copyfileobj(source, kept)
    return code


def _row(name: str, said: Iterable[Mapping[str, Any]]) -> Measured:
    """The first time of each variant is without the recorder, the second with it."""
    base = [each["step_us"] for each in said if (each["program"], each["variant"]) == (name, "base")]
    fixed = [each["step_us"] for each in said if (each["program"], each["variant"]) == (name, "fixed")]
    return Measured(name, next(iter(base), None), next(iter(fixed), None), next(iter(base[1:]), None))


def _write(path: Path, rows: Iterable[Measured]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["program", "base_us", "fixed_us", "recorded_us"])
        table.writerows([r.program, r.base_us, r.fixed_us, r.recorded_us] for r in rows)


# ---- anywhere ----


def measured(folder: Path) -> list[Measured]:
    """Read the stored measurements."""
    with (folder / MEASURED).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    number = {"": None}
    return [
        Measured(
            r["program"], *(number.get(r[c]) if r[c] in number else float(r[c])
                            for c in ("base_us", "fixed_us", "recorded_us"))
        )
        for r in rows
    ]  # fmt: skip


def unpacked(folder: Path, work: Path) -> Iterator[tuple[str, Path]]:
    """Every stored trace: its program, and the file as written by the recorder."""
    with tarfile.open(folder / TRACES) as tar:
        for member in tar:
            name, source = member.name.removesuffix(".record.gz"), tar.extractfile(member)
            assert source is not None
            path = work / f"{name}.record"
            with gzip.open(source) as packed, path.open("wb") as file:
                shutil.copyfileobj(packed, file)
            yield name, path


def scored(folder: Path) -> list[Scored]:
    """Import and judge every stored trace."""
    from rooflens.analysis.store.store import Store
    from rooflens.analysis.timeline.timeline import timeline
    from rooflens.analysis.workload import Workload
    from rooflens.tools.import_profile import import_profile

    programs, times = known(), {row.program: row for row in measured(folder)}
    found = []
    with tempfile.TemporaryDirectory() as work:
        store = Store(Path(work) / "store")
        for name, path in unpacked(folder, Path(work)):
            with Workload.open(store, import_profile(store, str(path)).workload) as opened:
                told = timeline(opened)
            steps = told.steps
            durations = sorted(steps.durations[steps.warm_up :]) if steps else []
            found.append(
                Scored(
                    known=programs[name],
                    measured=times[name],
                    verdict=told.verdict.height,
                    confidence=told.verdict.confidence,
                    bound=told.verdict.speedup_bound,
                    steps=len(durations),
                    warm_up=steps.warm_up if steps else 0,
                    step_us=durations[len(durations) // 2] / 1e3 if durations else None,
                )
            )
    return found


def table(rows: Iterable[Scored]) -> str:
    """Format the scores as text, with units in the header."""
    lines = [[f"{name} ({unit})" if unit else name for name, unit in COLUMNS.items()]]
    for row in rows:
        m = row.measured
        values = (
            row.known.name, "/".join(row.known.truth), row.verdict, row.right, row.confidence, row.bound, m.gain,
            row.bound_holds, row.steps, row.warm_up, row.step_us, m.base_us, m.fixed_us, m.recorded_us, m.overhead_pct,
        )  # fmt: skip
        lines.append([_text(value) for value in values])
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Record, score, or run as the program that keeps a recording; 1 if a verdict is wrong or a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="time and record the programs into this folder, then score them")
    parser.add_argument("--score", type=Path, nargs="?", const=RECORDED, help="score the recording in this folder")
    parser.add_argument("--only", nargs="+", choices=sorted(known()), help="these programs alone")
    parser.add_argument("--budget-s", type=float, default=600.0, help="start no recording after this many seconds")
    parser.add_argument("--keep", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.keep:
        return keep(given.keep, given.command)
    if given.out:
        recorded(given.out, given.only or list(known()), given.budget_s)
    found = scored(given.out or given.score or RECORDED)
    print(table(found))
    right, held = sum(row.right for row in found), sum(row.bound_holds is not False for row in found)
    print(f"{right} of {len(found)} verdicts right, {held} bounds hold")
    return 0 if right == held == len(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
