"""Runs of perf stat as Parquet: a row per run, a column per event; and which files are passes of one run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.store import sql_name, write_table
from ..columns import Column
from ..names import plain_text
from ..staged import Staged, measure
from ..stepfolders import step_of
from .runs import DURATION, Run

if TYPE_CHECKING:
    import duckdb

_COUNTER = re.compile(r"[A-Za-z][\w.:/,=@\-]{0,180}")
_RESERVED = {"row", "file_row_number", "dispatch_id", "kernel", "kernel_id", "duration_ns", "workload", "filename"}
_TIMES = {DURATION, "user_time", "system_time"}
_WHOLE = 100.0
_ROLES = {"perf kernel": "kernel", "perf run": "dispatch_id", "perf duration": "duration"}
"""Column of the Parquet file -> role; no event's name holds a space."""


@dataclass
class Source:
    """One file and its runs."""

    file: Path
    runs: list[Run]

    def events(self) -> set[str]:
        """What was counted, without the times that every file has."""
        return {event.name for run in self.runs for event in run.events} - _TIMES

    def commands(self) -> set[str | None]:
        return {run.command for run in self.runs}


def grouped_by_pass(sources: list[Source]) -> list[list[Source]]:
    """Files by pass. Those of one step belong together, as do those of other events of the same commands apart;
    all else are further runs."""
    groups: list[list[Source]] = []
    for source in sources:
        fitting = next((group for group in groups if _same_pass(group[0], source)), None)
        if fitting is None:
            groups.append([source])
        else:
            fitting.append(source)
    return groups


def stage(
    con: duckdb.DuckDBPyConnection, group: list[Source], folder: Path, names: dict[str, str], number: int, unnamed: str
) -> Staged:
    """The runs of pass ``number`` in ``folder``; ``names`` are the counters that the events become, ``unnamed`` what
    a program is called where the output does not state the command."""
    rows = [(_program(run) or unnamed, run) for source in group for run in source.runs]
    values = [_values(run, names) for _, run in rows]
    counters = list(dict.fromkeys(name for row in values for name in row if _usable(name)))
    file = group[0].file
    staged = Staged(
        step_of(file) or f"{file.name.split('.')[0]}", file, folder / f"perf_{number}.parquet", [], len(rows)
    )
    if number and step_of(file) is None:
        staged.name = f"{staged.name}_{number}"
    if strange := sorted({name for row in values for name in row if not _usable(name)}):
        staged.warnings.append(
            f"{file.name}: events that cannot be columns were left out: "
            f"{', '.join(plain_text(name, 60) for name in strange[:8])}."
        )
    columns = "".join(f", {sql_name(name)} DOUBLE" for name in counters)
    con.execute(
        'CREATE OR REPLACE TABLE perf_rows ("perf kernel" VARCHAR, "perf run" VARCHAR, '
        f'"perf duration" DOUBLE{columns})'
    )
    con.executemany(
        f"INSERT INTO perf_rows VALUES ({', '.join('?' * (len(_ROLES) + len(counters)))})",
        [
            [program, str(i), run.duration_ns, *(row.get(name) for name in counters)]
            for i, ((program, run), row) in enumerate(zip(rows, values, strict=True))
        ],
    )
    write_table(con, "FROM perf_rows", staged.parquet)
    con.execute("DROP TABLE perf_rows")
    staged.columns = [*(Column(h, role) for h, role in _ROLES.items()), *(Column(name, "counter") for name in counters)]
    measure(con, staged)
    return staged


def _values(run: Run, names: dict[str, str]) -> dict[str, float | None]:
    """Counter -> value of one run, with its share of the time and its error where they tell something."""
    found: dict[str, float | None] = {}
    for event in run.events:
        name = names[event.name]
        found[name] = event.value
        if event.value is not None and event.running_pct is not None and event.running_pct < _WHOLE:
            found[f"{name}:running_pct"] = event.running_pct
        if event.value is not None and event.error_pct is not None:
            found[f"{name}:error_pct"] = event.error_pct
    return found


def _same_pass(one: Source, other: Source) -> bool:
    if step_of(one.file) or step_of(other.file):
        return one.file.parent == other.file.parent
    return bool(one.events() & other.events()) or one.commands() != other.commands()


def _usable(name: str) -> bool:
    return bool(_COUNTER.fullmatch(name)) and name.casefold() not in _RESERVED


def _program(run: Run) -> str | None:
    """The name of the program that ran."""
    if not run.command:
        return None
    try:
        words = shlex.split(run.command)
    except ValueError:
        words = run.command.split()
    return Path(words[0]).name if words else None
