"""Ranks: which process of a program with many wrote a part of a profile, on which host, and what is told of them.

What a file states counts before what its name says (ranks.toml); what neither tells is None, never 0.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ....analysis.base.text import count_text
from ...base.untrusted_text import plain_text

LARGEST = (1 << 31) - 1
"""The greatest rank that the store can hold."""
_PARTS = 3
"""Last parts of a path that may tell."""
_HOST, _LISTED = 80, 8
_KNOWN_ENDS = (".gz", ".json", ".trace", ".pt", ".sqlite", ".db", ".csv", ".ncu-rep", ".nsys-rep", ".txt", ".record")


@dataclass(frozen=True)
class ProcessPlace:
    """Where a process stood: its rank among all, its host, and its number there; None where it is not known."""

    rank: int | None = None
    host: str | None = None
    pid: int | None = None

    def or_else(self, other: ProcessPlace) -> ProcessPlace:
        """What is known of it, else what ``other`` knows."""
        first = (self.rank, other.rank), (self.host, other.host), (self.pid, other.pid)
        return ProcessPlace(*(a if a is not None else b for a, b in first))  # type: ignore[arg-type]

    @property
    def words(self) -> str:
        """Such as "rank 3 on node01"."""
        rank = None if self.rank is None else f"rank {self.rank}"
        process = rank or (None if self.pid is None else f"process {self.pid}") or "a process"
        return process if self.host is None else f"{process} on {self.host}"


PID_DISTANCE = 1 << 32
"""What ids of processes are moved apart by: more than any is."""


def sql_place(place: ProcessPlace) -> str:
    """Rank, host and process as SQL values."""
    host = "NULL" if place.host is None else sql_literal(place.host)
    return f"{'NULL' if place.rank is None else place.rank}, {host}, {'NULL' if place.pid is None else place.pid}"


def distinct_pid(pid: int | str | None, number: int) -> str:
    """SQL: the id of a process (a number or SQL), made distinct from that of another one with the same id elsewhere;
    ``number`` counts those places from 0. ``plain_pid`` takes that back."""
    return "NULL" if pid is None else f"({pid})::BIGINT + {number * PID_DISTANCE}" if number else f"({pid})::BIGINT"


def plain_pid(pid: str = "pid") -> str:
    """SQL: the id of a process as it was before ``distinct_pid``."""
    return f"CASE WHEN {pid} >= {PID_DISTANCE} THEN {pid} % {PID_DISTANCE} ELSE {pid} END"


def places_of_pids(places: Sequence[ProcessPlace]) -> list[int]:
    """For every process how many others with its id come before it: 0 where ids are distinct."""
    seen: dict[int | None, dict[ProcessPlace, int]] = {}
    known = [seen.setdefault(place.pid, {}) for place in places]
    return [others.setdefault(place, len(others)) for place, others in zip(places, known, strict=True)]


def rank_number(value: object) -> int | None:
    """A rank as files state it; None for what is none."""
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"\d{1,9}", value, re.ASCII) else None
    return value if type(value) is int and 0 <= value <= LARGEST else None


def host_name(value: object) -> str | None:
    """The name of a host as files state it, safe to show; None for what is none."""
    return plain_text(str(value or ""), _HOST) or None


def place_of_name(path: Path, pid: int | None = None) -> ProcessPlace:
    """What the last parts of a path say; ``pid`` is the process where the file states it: a name must not contradict
    that."""
    text = "/".join([*path.parts[-_PARTS:-1], path.name])
    for pattern in _patterns():
        for stated in (text, _stem(text)):
            if match := pattern.search(stated):
                groups = match.groupdict()
                number = int(groups["pid"]) if groups.get("pid") else None
                rank = rank_number(groups.get("rank"))
                if rank is not None and groups.get("rank") == groups.get("pid"):
                    rank = None  # %nid% is the process where there is no rank
                if pid is None or number is None or number == pid:
                    return ProcessPlace(rank, host_name(groups.get("host")), number)
    return ProcessPlace()


def in_sequence(paths: Sequence[Path]) -> list[int] | None:
    """The numbers that the names of ``paths`` end in, where they can be ranks and nothing else; None otherwise."""
    pattern, of_passes = _sequence()
    matches = [None if of_passes.search(s) else pattern.search(s) for s in (_stem(path.name) for path in paths)]
    numbers = [int(match["rank"]) for match in matches if match]
    whole = len(numbers) == len(paths) == len(set(numbers)) > 1
    return numbers if whole and 0 in numbers else None


def settle_ranks(places: Sequence[ProcessPlace]) -> tuple[list[ProcessPlace], list[Note]]:
    """Places with the ranks that can be believed, and a warning where those of names cannot.

    rocprofv3 writes rank 0 for every process of a program that MPI and SLURM did not start: several processes that
    all claim it have no known rank.
    """
    if len(places) > 1 and {p.rank for p in places} == {0} and len({(p.host, p.pid) for p in places}) > 1:
        text = f"All {count_text(len(places), 'process is', 'processes are')} called rank 0: their ranks are not known."
        return [replace(p, rank=None) for p in places], [Note("ranks_unknown", text)]
    return list(places), []


def rank_notes(places: Iterable[ProcessPlace], size: int | None = None) -> tuple[list[Note], list[Note]]:
    """Notes and warnings: how many ranks there are on how many hosts, which are missing, which are there twice.

    ``size`` is how many ranks the program had, where the profile states it.
    """
    known = list(places)
    ranks = Counter(p.rank for p in known if p.rank is not None)
    if len(known) < 2 or not ranks:
        return [], []
    hosts = {p.host for p in known if p.host is not None}
    where = f" on {len(hosts):,} host{'s' if len(hosts) != 1 else ''}" if hosts else "; their hosts are unknown"
    of_all = f" of {size:,}" if size and size != len(ranks) else ""
    notes, warnings = [Note("ranks", f"One workload of {len(ranks):,}{of_all} ranks{where}.")], []
    if missing := sorted(set(range(size or max(ranks) + 1)) - ranks.keys()) if (size or max(ranks)) < 1 << 20 else []:
        text = (
            f"{_ranks_clause(missing)} missing: sums and balance are without {'it' if len(missing) == 1 else 'them'}."
        )
        warnings.append(Note("ranks_missing", text))
    if twice := sorted(rank for rank, n in ranks.items() if n > 1):
        text = f"{_ranks_clause(twice)} there more than once, from different processes; pid and host keep them apart."
        warnings.append(Note("ranks_repeated", text))
    if unknown := sum(p.rank is None for p in known):
        text = f"{unknown} of {count_text(len(known), 'process states', 'processes state')} no rank: theirs is NULL."
        warnings.append(Note("ranks_unknown", text))
    return notes, warnings


def _ranks_clause(ranks: Sequence[int]) -> str:
    """Ranks as the begin of a sentence: "Rank 17 is", "Ranks 3, 8-11 are"."""
    return f"{ranks_in_words(ranks)} {'are' if len(ranks) > 1 else 'is'}"


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Ranks in words, neighbours together: "Rank 17", "Ranks 3, 8-11"."""
    runs = [[r for _, r in run] for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0])]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {sum(map(len, runs[_LISTED:])):,} more" if len(runs) > _LISTED else ""
    return f"Rank{'s' if len(ranks) > 1 else ''} {', '.join(words[:_LISTED])}{more}"


def _stem(name: str) -> str:
    """A name without the ends that say what kind of file it is."""
    while end := next((e for e in _KNOWN_ENDS if name.endswith(e)), None):
        name = name.removesuffix(end)
    return name


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def _patterns() -> list[re.Pattern[str]]:
    return [re.compile(one["pattern"], re.ASCII) for one in _data()["name"]]


@cache
def _sequence() -> tuple[re.Pattern[str], re.Pattern[str]]:
    stated = _data()["sequence"]
    return re.compile(stated["pattern"], re.ASCII), re.compile(stated["unless"], re.ASCII)
