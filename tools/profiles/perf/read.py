"""Read the output of perf stat: runs become launches of one program."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.problems import LimitExceeded
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ...base.profile_files import files_of_format, grouped, head, is_inside, step_of
from ...base.untrusted_text import plain_text
from ..merging.contract import RESERVED
from ..merging.ranks import only_value
from ..merging.wording import note, refusal
from ..reader import Launch, Pass, Profile, ProfileFiles
from .text import (
    DURATION,
    WHOLE,
    PerfEvent,
    PerfRun,
    is_text,
    looks_like_json,
    looks_like_table,
    plain_names,
    read_json,
    read_table,
    read_text,
)

_COUNTER = re.compile(r"[A-Za-z][\w.:/,=@\-]{0,180}")
_TIMES = {DURATION, "user_time", "system_time"}


@dataclass
class PerfFile:
    """One file with its runs."""

    file: Path
    runs: list[PerfRun]

    def events(self) -> set[str]:
        """Return the counted events, without the times that every file has."""
        return {event.name for run in self.runs for event in run.events} - _TIMES

    def commands(self) -> set[str | None]:
        return {run.command for run in self.runs}


def _pass(group: list[PerfFile], names: dict[str, str], number: int, unnamed: str) -> Pass:
    """Return the runs of pass ``number`` as its launches.

    ``names`` maps events to counters; ``unnamed`` is the name of a program whose command the output does not state.
    """
    file = group[0].file
    runs = [run for source in group for run in source.runs]
    values = [_values(run, names) for run in runs]
    named = {name for row in values for name in row}
    counters = {name for name in named if _COUNTER.fullmatch(name) and name.casefold() not in RESERVED}
    if len(counters) > size_limits.MOST_COLUMNS or len(runs) * len(counters) > size_limits.EMPTY_CELLS:
        raise refusal("too_many_events", file=file, events=len(counters), runs=len(runs))
    progress.report(f"read {count_text(len(runs), 'run')} of {file.name}")
    warnings = []
    if strange := sorted(named - counters):
        warnings.append(note("no_counters.events", file=file, events=_short(strange)))
    launches = [
        Launch(
            kernel=_program(run.command or "") or unnamed,
            counters={name: value for name, value in row.items() if name in counters},
            duration_ns=run.duration_ns,
            dispatch_id=i,
        )
        for i, (run, row) in enumerate(zip(runs, values, strict=True))
    ]
    name = step_of(file) or file.name.split(".")[0]
    return Pass(f"{name}_{number}" if number and step_of(file) is None else name, file, launches, warnings)


def _values(run: PerfRun, names: dict[str, str]) -> dict[str, float | None]:
    """Return counter -> value of one run, plus the share of time counted and the error if they are informative."""
    values = {}
    by_core = defaultdict[str, list[PerfEvent]](list)
    for event in run.events:
        if match := _CORES.fullmatch(names[event.name]):
            by_core[match["event"]].append(event)
    combined = {name: _all_cores(run, parts) for name, parts in by_core.items()}
    # An event that was counted as such takes the place of a combined one.
    for name, event in (combined | {names[event.name]: event for event in run.events}).items():
        values[name] = event.value
        if event.value is not None and event.running_pct is not None and event.running_pct < WHOLE:
            values[f"{name}:running_pct"] = event.running_pct
        if event.value is not None and event.error_pct is not None:
            values[f"{name}:error_pct"] = event.error_pct
    return values


_CORES = re.compile(r"(?:cpu_(?:core|atom|lowpower)|armv8_\w+|apple_\w+_pmu)/(?P<event>[A-Za-z][\w.-]*)/")
"""A named event of one kind of core; Intel, Arm and Apple combine kinds of which each has its own counters."""
_ROUNDING = 1.0
"""Shares, in %, of kinds of cores that exclude each other exceed 100 % by less, because each is rounded."""


def _all_cores(run: PerfRun, parts: list[PerfEvent]) -> PerfEvent:
    """Return an event on all kinds of cores; its value is None if the file does not determine it.

    Source: tools/perf/Documentation/intel-hybrid.txt of Linux. A task is on one kind of core at a time, and perf scales
    the count of each by time enabled / time running, as if all of the run had been there: count * share is what was
    counted. If the shares add up to 100 %, the sum of these is exact. If they add up to less, events took turns as well
    or a kind was left out, and dividing by the sum of the shares scales it to the run, as perf does. If they add up to
    more, or processors are followed, all kinds count at once and the sum of the counts is the total.
    """
    counted = [(event.value, event.running_pct) for event in parts if event.value is not None]
    known = [(value, share) for value, share in counted if share is not None]
    whole = round(sum(share for _, share in known), 2)
    total = None
    if run.follows_cpus or whole > WHOLE + _ROUNDING:
        total = sum(value for value, _ in known) if len(known) == len(parts) else None
    elif whole and len(known) == len(counted):
        total = sum(value * share for value, share in known) / whole
    return PerfEvent("", total, running_pct=whole)


def _same_pass(one: PerfFile, other: PerfFile) -> bool:
    """Whether files are of one step, or runs of one pass: not different events of the same commands."""
    if step_of(one.file) or step_of(other.file):
        return one.file.parent == other.file.parent
    return bool(one.events() & other.events()) or one.commands() != other.commands()


def _program(command: str) -> str:
    """Return the name of the program that ran; empty if the command is not stated."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return Path(words[0]).name if words else ""


_SUFFIXES = (".txt", ".csv", ".json", ".log", ".out", ".perf", ".stat")
COMMAND_FILE = "command.txt"
"""File next to the output of one run, with its command line quoted as for a shell."""
_LINES, _SIZE = 200, 16 << 20


class PerfReader:
    """The reader of the output of perf stat; the kernel is the program, and a counter is an event.

    Times are in ns. ``EVENT:running_pct`` is the share of the run in which an event was counted, if it is below 100 %;
    ``EVENT:error_pct`` is the standard error if the value is a mean over runs (-r).
    """

    name = "perf"
    files = "output of perf stat (text, -x, or -j)"

    def detect(self, path: Path) -> bool:
        """Return whether ``path`` is such a file, or a folder with such files at most one level deep."""
        return bool(_files(path))

    def read(self, files: ProfileFiles) -> Profile:
        """Return the runs at ``files.path``. Raises BadInput for counts per CPU or per interval."""
        path = files.path
        outputs = files.or_itself(_files(path))
        sources = [PerfFile(file, _with_commands(file, _runs(file))) for file in outputs]
        sources = [source for source in sources if source.runs]
        if not sources:
            raise refusal("no_perf", path=path)
        runs = [run for source in sources for run in source.runs]
        names = plain_names(runs)
        unnamed = path.name.split(".")[0]
        return Profile(
            vendor="cpu",
            arch="cpu",
            tool="perf stat",
            command=only_value(run.command for run in runs),
            passes=[_pass(group, names, number, unnamed) for number, group in enumerate(grouped(sources, _same_pass))],
            warnings=_doubts(runs),
            notes=_notes(runs, names),
        )


READER = PerfReader()
"""Registered as an entry point in pyproject.toml."""


def _files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _is_perf)


def _is_perf(file: Path) -> bool:
    text = head(file, 1 << 20).decode("utf-8", errors="replace")
    lines = list(islice((line for line in text.splitlines() if line.strip()), _LINES))
    return is_text(text) or any(looks_like_json(line) or looks_like_table(line) for line in lines)


def _runs(file: Path) -> list[PerfRun]:
    """Return the runs of one file in any of the supported formats."""
    content = head(file, _SIZE + 1)
    if len(content) > _SIZE:
        raise LimitExceeded(f"{file.name} is larger than {_SIZE >> 20} MiB", "output of perf stat is small")
    text = content.decode("utf-8-sig", errors="replace")
    if is_text(text):
        return read_text(file.name, text)
    lines = text.splitlines()
    if any(map(looks_like_json, lines)):
        return read_json(file.name, text)
    if any(map(looks_like_table, lines)):
        return read_table(file.name, text)
    return []


def _with_commands(file: Path, runs: list[PerfRun]) -> list[PerfRun]:
    """Add the command from a file next to the output, since the formats for programs do not state it."""
    beside = file.with_name(COMMAND_FILE)
    if not any(run.command is None for run in runs) or not (beside.is_file() and is_inside(beside, file.parent)):
        return runs
    command = plain_text(head(beside, 1 << 16).decode("utf-8", errors="replace"), 4000)
    for run in runs:
        run.command = run.command or command or None
    return runs


def _doubts(runs: list[PerfRun]) -> list[Note]:
    units = sorted({unit for run in runs for unit in run.unknown_units})
    if not units:
        return []
    return [note("unknown_units.perf", units=[repr(plain_text(unit, 20)) for unit in units[:6]])]


def _notes(runs: list[PerfRun], names: dict[str, str]) -> list[Note]:
    """Return notes about the counts; none of them reports a fault."""
    notes = []
    events = [event for run in runs for event in run.events]
    if modified := sorted({e.name for e in events if names[e.name] != e.name}):
        notes.append(note("modified", events=_short(modified)))
    if missing := sorted({f"{e.name} ({e.reason})" for e in events if e.value is None}):
        notes.append(note("not_measured", events=_short(missing)))
    if listed := sorted({match["event"] for e in events if (match := _CORES.fullmatch(names[e.name]))}):
        notes.append(note("kinds_of_cores", events=_short(listed)))
    if means := [run.repeats for run in runs if run.repeats != 1]:
        notes.append(note("means", repeats=means[0] or "several", means=len(means), runs=runs))
    if without := sum(1 for run in runs if run.duration_ns is None):
        notes.append(note("no_duration", without=without, runs=runs))
    if any(run.command is None for run in runs):
        notes.append(note("no_command"))
    return notes


def _short(names: list[str]) -> list[str]:
    return [plain_text(name, 60) for name in names]
