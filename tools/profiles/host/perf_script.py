"""Read the text that perf script writes of samples with stacks.

A sample begins with a line ``comm PID/TID [CPU] SECONDS: PERIOD EVENT:``, in which most parts may lack; the lines of
its stack follow, the innermost frame first: ``ADDRESS SYMBOL+OFFSET (FILE)``, with ``-F +srcline`` each followed by
its source line. An empty line ends it. The name of a thread may have spaces, so the time is searched for first.
(tools/perf/builtin-script.c of Linux)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress
from ...base.profile_files import files_of_format, head
from ..merging.contract import one_row, parquet
from ..parsing.spool import Spool
from ..reader import Profile, ProfileFiles
from .files import host_profile, lines, one_file
from .recording import POINTS, HostClock, HostFrame, HostRecording, StackSpool, spans

_SUFFIXES = (".txt", ".perf", ".script", ".stacks")
_HEAD, _OFTEN = 1 << 16, 20_000
_CLOCK = re.compile(r"(?:cpu|task)-clock")
_UNKNOWN = "[unknown]"
_SINCE_1970 = 1_000_000_000_000_000_000
_SAMPLE = re.compile(
    r"(?P<comm>\S.*?)\s+(?:(?P<pid>\d{1,9})/)?(?P<tid>\d{1,9})\s+(?:\[\d{1,6}\]\s+)?(?:[\w.]{1,8}\s+)?"
    r"(?P<s>\d{1,12})\.(?P<fraction>\d{3,9}):\s+(?:(?P<period>\d{1,18})\s+)?(?P<event>\S.*?):\s*(?P<rest>.*)"
)
_FRAME = re.compile(r"\s+(?P<address>[0-9a-f]{1,16})\s+(?P<symbol>.*?)(?:\+0x[0-9a-f]{1,16})?\s+\((?P<file>.*)\)")
_PYTHON = re.compile(r"py::(?P<name>.*):(?P<file>/.*|<.*)")
_SOURCE = re.compile(r"\s+(?P<file>\S.*?):(?P<line>\d{1,9})(?: \(.*\))?")


@dataclass
class _PerfSample:
    """One sample: when, in which thread, and the lines of its stack."""

    time_ns: int
    pid: int | None
    thread: int
    interval_ns: int
    """The time that it stands for, if a clock was sampled; else 0."""
    lines: list[str] = field(default_factory=list)


def detect(path: Path) -> bool:
    """Return whether perf script wrote a file, or a folder has one such file."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _is_script)


def _is_script(file: Path) -> bool:
    """Return whether a sample and a frame of its stack are near the beginning."""
    first = head(file, _HEAD).decode("utf-8", "replace").splitlines()
    return any(_SAMPLE.fullmatch(line.rstrip()) and _FRAME.fullmatch(after) for line, after in pairwise(first))


def read(files: ProfileFiles) -> Profile:
    """Return the samples at ``files.path``; BadInput if there are none with a stack and a time."""
    file = one_file(files, _files(files.path), "perf script")
    stacks = StackSpool(files.con, files.work / "perf")
    points = Spool(files.con, files.work / "perf_points", POINTS)
    numbers: dict[str, int] = {}
    has_lines, interval = False, 0
    for sample in _samples(file):
        text = "\n".join(sample.lines)
        if text not in numbers:
            frames = _frames(sample.lines)
            has_lines = has_lines or any(frame.line for frame in frames)
            numbers[text] = stacks.number(frames)
        interval = interval or sample.interval_ns
        points.append((sample.time_ns, sample.pid or sample.thread, sample.thread, numbers[text]))
        if not points.rows % _OFTEN:
            progress.report(f"read {count_text(points.rows, 'sample')} of {file.name}")
    if not points.rows:
        raise BadInput(f"{file.name} contains no samples of perf script", "no line has a thread, a time and an event")
    samples = spans(files.con, parquet(points.close()), files.work / "perf", interval)
    # Times of CLOCK_REALTIME are those since 1970; other clocks begin with the machine.
    (first,) = one_row(files.con, f"SELECT min(start_ns) FROM ({samples})")
    clock = HostClock(0) if first > _SINCE_1970 else HostClock(candidates=(0,))
    limits = ["host_processor_only", *([] if has_lines else ["host_functions_only"])]
    return host_profile(file, HostRecording("perf", stacks.close(), samples, clock, limits))


def _samples(file: Path) -> Iterator[_PerfSample]:
    """Yield the samples of a file, in its order."""
    sample: _PerfSample | None = None
    for line in map(str.rstrip, lines(file)):
        begins = _SAMPLE.fullmatch(line) if line[:1].strip() or sample is None else None
        if begins or not line:
            if sample and sample.lines:
                yield sample
            sample = None
        if begins and not line.startswith("#"):
            time = int(begins["s"]) * 1_000_000_000 + int(begins["fraction"].ljust(9, "0"))
            pid = int(begins["pid"]) if begins["pid"] else None
            interval = int(begins["period"] or 0) if _CLOCK.search(begins["event"]) else 0
            sample = _PerfSample(time, pid, int(begins["tid"]), interval)
        elif sample is not None:
            sample.lines.append(line)
    if sample and sample.lines:
        yield sample


def _frames(stack: list[str]) -> list[HostFrame]:
    """Return the frames of a stack, the outermost first. Frames of Python have ``py::NAME:FILE`` as their symbol."""
    frames: list[HostFrame] = []
    for line in stack:
        if native := _FRAME.fullmatch(line):
            if python := _PYTHON.fullmatch(native["symbol"]):
                frames.append(HostFrame(python["name"], python["file"]))
            elif native["symbol"] != _UNKNOWN:
                frames.append(HostFrame(native["symbol"], module=native["file"]))
            elif native["file"] != _UNKNOWN:  # neither known: the stack could not be followed here
                frames.append(HostFrame(f"0x{native['address']}", module=native["file"]))
        elif frames and (source := _SOURCE.fullmatch(line)):
            frames[-1] = frames[-1]._replace(file=source["file"], line=int(source["line"]))
    return frames[::-1]
