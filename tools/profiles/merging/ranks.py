"""Ranks: which process of a distributed program wrote a part of a profile, on which host, and the notes about them.

What a file states has priority over what its name says (ranks.toml). Unknown values are None, never 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ...base.untrusted_text import plain_text
from ..parsing.module_data import module_data
from .wording import note

T = TypeVar("T")
LARGEST = (1 << 31) - 1
"""The largest rank that the store can represent."""
_PARTS = 3
"""Number of trailing parts of a path that are searched for a rank."""
_HOST, _LISTED = 80, 8
_PATTERNS = [re.compile(one["pattern"], re.ASCII) for one in module_data(__file__)["name"]]
_SEQUENCE, _OF_PASSES = (
    re.compile(module_data(__file__)["sequence"][part], re.ASCII) for part in ("pattern", "unless")
)
_KNOWN_ENDS = (".gz", ".json", ".trace", ".pt", ".sqlite", ".db", ".csv", ".ncu-rep", ".nsys-rep", ".txt", ".record")


@dataclass(frozen=True)
class ProcessPlace:
    """The place of a process: its rank, its host, and its process id there; None for what is unknown."""

    rank: int | None = None
    host: str | None = None
    pid: int | None = None

    def or_else(self, other: ProcessPlace) -> ProcessPlace:
        """Return this place, with unknown values taken from ``other``."""
        first = (self.rank, other.rank), (self.host, other.host), (self.pid, other.pid)
        return ProcessPlace(*(a if a is not None else b for a, b in first))  # type: ignore[arg-type]

    @property
    def words(self) -> str:
        """Text such as "rank 3 on node01"."""
        rank = None if self.rank is None else f"rank {self.rank}"
        process = rank or (None if self.pid is None else f"process {self.pid}") or "a process"
        return process if self.host is None else f"{process} on {self.host}"


PID_DISTANCE = 1 << 32
"""Offset that keeps equal process ids of different hosts apart; larger than any process id."""


def sql_place(place: ProcessPlace) -> str:
    """Return rank, host and process id as SQL values."""
    return ", ".join(map(sql_value, (place.rank, place.host, place.pid)))


def only_value(values: Iterable[T]) -> T | None:
    """Return the value that all of ``values`` are; None if they differ, or if there are none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def sql_value(value: int | str | None) -> str:
    """Return a number or a text as SQL, which is NULL for None."""
    return "NULL" if value is None else sql_literal(value) if isinstance(value, str) else str(value)


def distinct_pid(pid: int | str | None, number: int) -> str:
    """Return SQL for a process id (a number or SQL), made distinct from the same id on another host.

    ``number`` counts the processes with that id from 0. ``plain_pid`` restores the original id.
    """
    return "NULL" if pid is None else f"({pid})::BIGINT + {number * PID_DISTANCE}" if number else f"({pid})::BIGINT"


def plain_pid() -> str:
    """Return SQL for the process id before ``distinct_pid``."""
    return f"CASE WHEN pid >= {PID_DISTANCE} THEN pid % {PID_DISTANCE} ELSE pid END"


def places_of_pids(places: Sequence[ProcessPlace]) -> list[int]:
    """Return for every process how many other places with its pid come before it: 0 if all pids are distinct."""
    seen: dict[int | None, dict[ProcessPlace, int]] = {}
    known = [seen.setdefault(place.pid, {}) for place in places]
    return [others.setdefault(place, len(others)) for place, others in zip(places, known, strict=True)]


def rank_number(value: object) -> int | None:
    """Parse a rank as files state it; None if it is not a valid rank."""
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"\d{1,9}", value, re.ASCII) else None
    return value if type(value) is int and 0 <= value <= LARGEST else None


def host_name(value: object) -> str | None:
    """Return a host name as files state it, safe to show; None if there is none."""
    return plain_text(str(value or ""), _HOST) or None


def place_of_name(path: Path, pid: int | None = None) -> ProcessPlace:
    """Extract rank, host and pid from the last parts of a path.

    ``pid`` is the process id that the file states, if any; a pattern that finds another id is ignored.
    """
    text = "/".join([*path.parts[-_PARTS:-1], path.name])
    for pattern in _PATTERNS:
        for stated in (text, _stem(text)):
            if match := pattern.search(stated):
                groups = match.groupdict()
                number = int(groups["pid"]) if groups.get("pid") else None
                rank = rank_number(groups.get("rank"))
                if rank is not None and groups.get("rank") == groups.get("pid"):
                    rank = None  # %nid% is the process id if there is no rank
                if pid is None or number is None or number == pid:
                    return ProcessPlace(rank, host_name(groups.get("host")), number)
    return ProcessPlace()


def in_sequence(paths: Sequence[Path]) -> list[int] | None:
    """Return the numbers at the end of the names of ``paths`` if they can only be ranks; None otherwise."""
    matches = [None if _OF_PASSES.search(s) else _SEQUENCE.search(s) for s in (_stem(path.name) for path in paths)]
    numbers = [int(match["rank"]) for match in matches if match]
    whole = len(numbers) == len(paths) == len(set(numbers)) > 1
    return numbers if whole and 0 in numbers else None


def settle_ranks(places: Sequence[ProcessPlace]) -> tuple[list[ProcessPlace], list[Note]]:
    """Return the places with credible ranks only, and a warning if the ranks of names are not credible.

    rocprofv3 writes rank 0 for every process of a program that MPI and SLURM did not start, so if several processes
    all have rank 0, their ranks are unknown.
    """
    if len(places) > 1 and {p.rank for p in places} == {0} and len({(p.host, p.pid) for p in places}) > 1:
        return [replace(p, rank=None) for p in places], [note("ranks_unknown.zero", count=len(places))]
    return list(places), []


def successive_runs(spans: Iterable[tuple[int, int, int]], pids: Sequence[int | None]) -> list[list[int]]:
    """Divide files into runs of a program, one after the other; ``pids`` are the processes of the files.

    ``spans`` are file, start and end, in the order of their starts. Files whose processes overlap in time, or have the
    same id, are from one run.
    """
    runs: list[list[int]] = []
    until, seen = 0, set[int | None]()
    for file, start, end in spans:
        own = pids[file]
        if not runs or (start >= until and (own is None or own not in seen)):
            runs.append([])
            until, seen = end, set()
        runs[-1].append(file)
        until = max(until, end)
        seen.add(own)
    return runs


def rank_notes(places: Iterable[ProcessPlace], size: int | None = None) -> tuple[list[Note], list[Note]]:
    """Return notes and warnings: the number of ranks and hosts, and which ranks are missing or appear twice.

    ``size`` is the number of ranks of the program, if the profile states it.
    """
    known = list(places)
    ranks = Counter(p.rank for p in known if p.rank is not None)
    if len(known) < 2 or not ranks:
        return [], []
    hosts = {p.host for p in known if p.host is not None}
    where = f" on {len(hosts):,} host{'s' if len(hosts) != 1 else ''}" if hosts else "; their hosts are unknown"
    of_all = f" of {size:,}" if size and size != len(ranks) else ""
    notes, warnings = [note("ranks", count=len(ranks), of_all=of_all, where=where)], []
    if missing := sorted(set(range(size or max(ranks) + 1)) - ranks.keys()) if (size or max(ranks)) < 1 << 20 else []:
        warnings.append(note("ranks_missing", ranks=_ranks_clause(missing), them="it" if len(missing) == 1 else "them"))
    if twice := sorted(rank for rank, n in ranks.items() if n > 1):
        warnings.append(note("ranks_repeated", ranks=_ranks_clause(twice)))
    if unknown := sum(p.rank is None for p in known):
        warnings.append(note("ranks_unknown.some", unknown=unknown, count=len(known)))
    return notes, warnings


def _ranks_clause(ranks: Sequence[int]) -> str:
    """Return ranks as the start of a sentence: "Rank 17 is", "Ranks 3, 8-11 are"."""
    return f"{ranks_in_words(ranks)} {'are' if len(ranks) > 1 else 'is'}"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Return ranks as text, with consecutive ones combined: "Rank 17", "Ranks 3, 8-11"."""
    runs = [[r for _, r in run] for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0])]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {sum(map(len, runs[_LISTED:])):,} more" if len(runs) > _LISTED else ""
    return f"Rank{'s' if len(ranks) > 1 else ''} {', '.join(words[:_LISTED])}{more}"


def _stem(name: str) -> str:
    """Return a file name without its extensions."""
    while end := next((e for e in _KNOWN_ENDS if name.endswith(e)), None):
        name = name.removesuffix(end)
    return name
