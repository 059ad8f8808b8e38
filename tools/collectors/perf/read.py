"""Reader of perf stat: its text, separated values (-x) and JSON (-j); one row per run of the program."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.problems import BadInput, LimitExceeded, Problem
from ....analysis.store import Manifest
from ..files import head, is_inside
from ..merge import Merged, write_tables
from ..names import plain_text
from ..passes import as_replays
from ..session import WORK
from ..stepfolders import files_below
from .runs import DURATION, Run, plain_names
from .staging import Source, grouped_by_pass, stage
from .table import looks_like_json, looks_like_table, read_json, read_table
from .text import is_text, read_text

if TYPE_CHECKING:
    import duckdb

FORMAT = "perf"
TITLE = "output of perf stat (text, -x, or -j)"
_SUFFIXES = (".txt", ".csv", ".json", ".log", ".out", ".perf", ".stat")
COMMAND_FILE = "command.txt"
"""Beside the output of one run: its command line, quoted as for a shell."""
_LINES, _SIZE = 200, 16 << 20


def detect(path: Path) -> bool:
    """Whether ``path`` is such a file, or a folder with some in it or in its sub-folders."""
    return bool(_files(path))


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, Merged]:
    """Read the runs at ``path`` into tables under ``out``; the kernel is the program, a counter an event.

    Times are in ns. ``EVENT:running_pct`` is the share of the run in which an event was counted, where that is not
    all of it; ``EVENT:error_pct`` the standard error where the value is a mean over runs (-r). Raises BadInput for
    counts per CPU or per interval.
    """
    sources = [Source(file, _named(file, _runs(file))) for file in _files(path) or ([path] if path.is_file() else [])]
    sources = [source for source in sources if source.runs]
    if not sources:
        raise BadInput(f"{path.name} holds no output of perf stat", "neither its text nor rows of -x or -j")
    runs = [run for source in sources for run in source.runs]
    names = plain_names(runs)
    groups = grouped_by_pass(sources)
    name = path.name.split(".")[0]
    passes = as_replays([stage(con, group, out / WORK, names, n, name) for n, group in enumerate(groups)])
    merged = write_tables(con, passes, out, instances_per_xcd=1)
    merged.warnings += _doubts(runs)
    merged.notes += _notes(runs, names)
    commands = {run.command for run in runs}
    command = next(iter(commands)) if len(commands) == 1 else None
    manifest = Manifest(
        name=name,
        format=FORMAT,
        vendor="cpu",
        arch="cpu",
        command=plain_text(command, 400) if command else None,
        tool="perf stat",
    )
    return manifest, merged


def _files(path: Path) -> list[Path]:
    return [file for file in files_below(path, _SUFFIXES) if _is_perf(file)]


def _is_perf(file: Path) -> bool:
    try:
        text = head(file, 1 << 20).decode("utf-8", errors="replace")
    except Problem:
        return False
    lines = list(islice((line for line in text.splitlines() if line.strip()), _LINES))
    return is_text(text) or any(looks_like_json(line) or looks_like_table(line) for line in lines)


def _runs(file: Path) -> list[Run]:
    """The runs of one file, in whichever form it is."""
    content = head(file, _SIZE + 1)
    if len(content) > _SIZE:
        raise LimitExceeded(f"{file.name} is larger than {_SIZE >> 20} MiB", "output of perf stat is small")
    text = content.decode("utf-8-sig", errors="replace")
    if is_text(text):
        return read_text(file.name, text)
    lines = [line for line in text.splitlines() if line.strip()]
    if any(map(looks_like_json, lines)):
        return read_json(file.name, text)
    if any(map(looks_like_table, lines)):
        return read_table(file.name, text)
    return []


def _named(file: Path, runs: list[Run]) -> list[Run]:
    """The runs with the command that a file beside them states, since the forms for programs do not."""
    beside = file.with_name(COMMAND_FILE)
    if not any(run.command is None for run in runs) or not (beside.is_file() and is_inside(beside, file.parent)):
        return runs
    command = plain_text(head(beside, 1 << 16).decode("utf-8", errors="replace"), 4000)
    for run in runs:
        run.command = run.command or command or None
    return runs


def _doubts(runs: list[Run]) -> list[str]:
    units = sorted({unit for run in runs for unit in run.unknown_units})
    if not units:
        return []
    listed = ", ".join(repr(plain_text(unit, 20)) for unit in units[:6])
    return [f"Unknown units {listed}: these values are kept as printed."]


def _notes(runs: list[Run], names: dict[str, str]) -> list[str]:
    """What is to be known about the counts; nothing of it is a fault."""
    notes = []
    events = [event for run in runs for event in run.events]
    if modified := sorted({e.name for e in events if names[e.name] != e.name}):
        notes.append(
            f"Counted with a modifier, which the counter's name leaves out: {_listed(modified)} "
            "(u: in user space only, k: in the kernel only)."
        )
    if missing := sorted({f"{e.name} ({e.reason})" for e in events if e.value is None}):
        notes.append(f"Not measured, so NULL: {_listed(missing)}.")
    if means := [run.repeats for run in runs if run.repeats != 1]:
        count = f"{means[0]} runs" if means[0] else "several runs"
        notes.append(f"Means over {count} (-r) in {len(means)} of {len(runs)} rows; EVENT:error_pct is their error.")
    if without := sum(1 for run in runs if run.duration_ns is None):
        notes.append(
            f"No elapsed time, hence no duration, in {without} of {len(runs)} rows: "
            f"with -x or -j perf stat states it only as an event (-e {DURATION},...)."
        )
    if any(run.command is None for run in runs):
        notes.append("The form of the file does not state the command: the kernel is called as the profile.")
    return notes


def _listed(names: list[str]) -> str:
    shown = ", ".join(plain_text(name, 60) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
