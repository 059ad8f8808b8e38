"""One process of one run as staged Parquet, from any file format, and how processes form passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.store.store import write_table
from ...base import size_limits
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import Connection, all_rows, parquet, row_of
from ..merging.ranks import ProcessPlace, in_sequence, settle_ranks
from ..merging.wording import note, refusal
from .agents import Rocprofv3Agent, find_profiled_gpu
from .layouts import STAGED

LAUNCH, SAMPLE_COLUMNS, OBJECT, ENTRY = (STAGED[name] for name in ("launch", "sample", "object", "entry"))
"""Columns of staged tables -> SQL types, as ACTIVITY and SPAN have them for activity and for ranges and calls."""
SPAN = {"session": "BIGINT"} | STAGED["timed"]
ACTIVITY = {kind: (SPAN if kind == "regions" else STAGED["timed"]) | more for kind, more in STAGED["activity"].items()}


@dataclass(frozen=True)
class ProcessSamples:
    """Program counter samples of one process, as SELECTs with the columns SAMPLE_COLUMNS, OBJECT and ENTRY."""

    samples: str
    objects: str = ""
    """The code objects that were loaded; empty if the profile does not state them."""
    entries: str = ""
    """The kernels in the code objects."""


@dataclass
class ProcessRecording:
    """The data of one process in one run of the profiler."""

    source: Path
    kind: str
    """Format: rocpd, json or csv."""
    label: str
    """Name of the pass, or an empty text."""
    above: tuple[str, ...]
    """Folders above that of the pass, below the folder that was imported."""
    launches: Path
    """Parquet file with the columns LAUNCH for every process of the source."""
    keys: tuple[int, int]
    """First and last key of this process."""
    rows: int
    values: list[Path] = field(default_factory=list)
    """Parquet files (key, counter, value) for every process of the source; values of one counter add up."""
    counters: tuple[str, ...] = ()
    host: str | None = None
    rank: int | None = None
    pid: int | None = None
    command: str | None = None
    session: str | None = None
    """Identity of the run in a database, by which copies are recognised."""
    span: tuple[int, int] | None = None
    """Start and end of the process, or else of its kernels, in ns on the clock of its host."""
    kernels: dict[tuple[str, int | None], int] = field(default_factory=dict)
    """Kernel and grid -> number of launches."""
    agents: list[Rocprofv3Agent] = field(default_factory=list)
    devices: tuple[int, ...] = ()
    """Numbers of the agents that its launches ran on."""
    lds_is_static: bool = False
    tool: str = "rocprofv3"
    ranges: str = ""
    """SQL for the ROCTX ranges of this process, with the columns SPAN; empty if there are none."""
    activity: dict[str, str] = field(default_factory=dict)
    """Kind of other activity (ACTIVITY) -> its SQL; empty if only kernels and ranges were traced."""

    sampled: ProcessSamples | None = None
    over_time: Path | None = None
    """Parquet file (sampled_value in layouts.toml) with counters sampled over time, for every process of the source."""

    @property
    def place(self) -> ProcessPlace:
        """The rank, host and pid of the process."""
        return ProcessPlace(self.rank, self.host, self.pid)

    def set_place(self, place: ProcessPlace) -> None:
        """Set rank and host; the pid stays as the launches state it."""
        self.rank, self.host = place.rank, place.host

    def select(self, columns: str = "*") -> str:
        """Return SQL for the launches of this process."""
        low, high = self.keys
        return f"SELECT {columns} FROM {parquet([self.launches])} WHERE key BETWEEN {low} AND {high}"

    def overlaps(self, other: ProcessRecording) -> bool:
        """Return whether two processes may have run at the same time; clocks of different hosts cannot be compared."""
        if self.span is None or other.span is None or self.host != other.host:
            return True
        return self.span[0] <= other.span[1] and other.span[0] <= self.span[1]


def stage_launches(
    con: Connection, rows: str, *, order: str, owner: str, launches: Path, more: Mapping[Path, str]
) -> tuple[list[tuple[Any, ...]], list[Path]]:
    """Write the launches of a source, and the files ``more``, whose SQL refers to the table ``found``.

    The table has the columns of ``rows`` and the key of each launch. Return the processes, each as its columns
    ``owner``, first key, last key and number of launches; and those of the files that have any rows.
    """
    con.execute(
        f"CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY {order}) - 1 AS key, * FROM ({rows})"
    )
    picks = row_of(LAUNCH, {c: c for c in LAUNCH} | {"kernel": bounded_name("kernel")}, "TRY_CAST")
    write_table(con, f"SELECT {picks} FROM found ORDER BY key", launches)
    filled = [path for path, sql in more.items() if write_table(con, sql, path)]
    processes = all_rows(con, f"SELECT {owner}, min(key), max(key), count(*) FROM found GROUP BY ALL ORDER BY min(key)")
    con.execute("DROP TABLE found")
    return processes, filled


def describe_recordings(con: Connection, recordings: Sequence[ProcessRecording]) -> None:
    """Set what launches and values reveal about processes: counters, kernels, devices and, if unknown, the time span.

    One query serves all processes, because a file may contain hundreds of them.
    """
    if not recordings:
        return
    if len(recordings) > size_limits.MOST_PROCESSES:
        raise refusal(
            "too_many_recordings", file=recordings[0].source, count=len(recordings), most=size_limits.MOST_PROCESSES
        )
    launches, values = parquet([recordings[0].launches]), recordings[0].values
    ranges = ", ".join(f"({i}, {low}, {high})" for i, (low, high) in enumerate(r.keys for r in recordings))
    of = f"JOIN (VALUES {ranges}) r(number, low, high) ON key BETWEEN low AND high"
    for number, kernel, grid, n in all_rows(
        con, f"SELECT number, kernel, grid, count(*) FROM {launches} {of} GROUP BY ALL"
    ):
        recordings[number].kernels[kernel, grid] = n
    for number, devices, start, end in all_rows(
        con,
        f"SELECT number, list(DISTINCT device ORDER BY device), min(start_ns) FILTER (start_ns > 0), max(end_ns) "
        f"FROM {launches} {of} GROUP BY number",
    ):
        item = recordings[number]
        item.devices = tuple(d for d in devices or () if d is not None)
        if item.span is None and start is not None and end is not None and end > start:
            item.span = (start, end)
    if values:
        for number, counters in all_rows(
            con, f"SELECT number, list(DISTINCT counter ORDER BY counter) FROM {parquet(values)} {of} GROUP BY number"
        ):
            recordings[number].counters = tuple(c for c in counters if c is not None)


_LISTED = 8


def settle_ranks_of_recordings(path: Path, recordings: list[ProcessRecording]) -> list[Note]:
    """Remove ranks that are not credible, with a warning. Without any rank, use folders with the names 0, 1, 2."""
    if not any(r.rank is not None for r in recordings):
        _take_ranks_of_folders(path, recordings)
        return []
    by_pass: dict[tuple[str, ...], list[ProcessRecording]] = {}
    for item in recordings:
        by_pass.setdefault((item.label, *item.counters), []).append(item)
    warnings = []
    for group in by_pass.values():
        places, doubts = settle_ranks([r.place for r in group])
        for item, place in zip(group, places, strict=True):
            item.set_place(place)
        warnings += doubts
    return list(dict.fromkeys(warnings))


def _take_ranks_of_folders(path: Path, recordings: list[ProcessRecording]) -> None:
    """Set ranks from the names of the uppermost folders, if each has one process of a pass."""
    below = [r.source.relative_to(path) for r in recordings] if path.is_dir() else []
    folders = list(dict.fromkeys(Path(p.parts[0]) for p in below if len(p.parts) > 1))
    numbers = in_sequence(folders) if all(len(p.parts) > 1 for p in below) else None
    if not numbers or len({(p.parts[0], r.label) for p, r in zip(below, recordings, strict=True)}) < len(recordings):
        return
    rank_of_folder = dict(zip(folders, numbers, strict=True))
    for item, place in zip(recordings, below, strict=True):
        item.rank = rank_of_folder[Path(place.parts[0])]


def keep_one_target(recordings: list[ProcessRecording]) -> tuple[list[ProcessRecording], list[Note]]:
    """Remove ranks that ran on another target than most, with a warning; without ranks, nothing is removed."""
    by_target: dict[str, list[ProcessRecording]] = {}
    for item in recordings:
        agent, _ = find_profiled_gpu(item.agents, item.devices)
        if agent.arch:
            by_target.setdefault(agent.arch, []).append(item)
    if len(by_target) < 2 or any(r.rank is None for group in by_target.values() for r in group):
        return recordings, []
    most, *others = sorted(by_target, key=lambda arch: (-len(by_target[arch]), arch))
    left_out = [r for arch in others for r in by_target[arch]]
    names = [f"{r.place.words} ({arch})" for arch in others for r in by_target[arch][:_LISTED]]
    return [r for r in recordings if r not in left_out], [note("ranks_other_device.recorded", most=most, names=names)]


_GROUPS_LISTED = 6


def by_pass(recordings: list[ProcessRecording]) -> tuple[dict[str, list[ProcessRecording]], list[Note]]:
    """Group recordings with launches by the names of their passes.

    The main pass is the first one: one without counters, else the one with most launches. A folder that numbers passes
    decides. Without one, processes of one run measure the same counters; a process with other counters is another pass,
    and one without counters belongs to the run that it overlaps in time. Raises BadInput if the folder contains
    profiles of unrelated runs.
    """
    passes: dict[str, list[ProcessRecording]] = {}
    for item in recordings:
        if item.label:
            passes.setdefault(item.label, []).append(item)
    loose = [r for r in recordings if not r.label]
    for group in _runs(loose):
        names = [f"pass_{n}" for n in range(1, len(passes) + 2)] if group[0].counters else ["timing", "trace"]
        if len(recordings) == len(group):
            names = ["main"]
        passes[next(name for name in names if name not in passes)] = group
    warnings = []
    for name, group in passes.items():
        trusted = any(r.label for r in group) and len({r.above for r in group}) == 1
        ranks = {r.rank for r in group}
        # Processes with distinct ranks are one run, whatever their clocks show.
        if not (trusted or (None not in ranks and len(ranks) == len(group))):
            warnings += _check_related(group)
        passes[name] = sorted(
            (r for r in group if r.rows),
            key=lambda r: (r.rank is None, r.rank or 0, r.host or "", r.span[0] if r.span else 0, r.pid or 0),
        )
    passes = {name: group for name, group in passes.items() if group}
    _check_same_program(passes, loose)
    plain = [name for name, group in passes.items() if not any(r.counters for r in group)]
    main = max(plain or passes, key=lambda name: (name == "timing", sum(r.rows for r in passes[name])), default="")
    return dict(sorted(passes.items(), key=lambda item: item[0] != main)), warnings


def assign_processes(main: list[ProcessRecording], others: list[ProcessRecording]) -> list[int]:
    """Return for every recording of a pass the number of the process of the main pass that it repeats.

    Ranks decide if both have them. Otherwise, a process matches a process of the main pass that has all of its kernels
    and sizes, in order; a process without a match gets the next free number.
    """
    free = list(range(len(main)))
    numbers: list[int] = []
    for item in others:
        ranked = [n for n in free if item.rank is not None and main[n].rank == item.rank]
        # A launch of one rank never matches a launch of another rank.
        possible = [n for n in free if item.rank is None or main[n].rank is None]
        alike = [n for n in possible if item.kernels.keys() <= main[n].kernels.keys()]
        same = [n for n in alike if main[n].kernels == item.kernels]
        number = next(iter(ranked or same or alike or possible), len(main) + len(numbers))
        numbers.append(number)
        if number in free:
            free.remove(number)
    return numbers


def _runs(loose: list[ProcessRecording]) -> list[list[ProcessRecording]]:
    """Group recordings without a pass folder by their counters; those without counters join a run they overlap."""
    groups: dict[tuple[str, ...], list[ProcessRecording]] = {}
    for item in loose:
        if item.counters:
            groups.setdefault(item.counters, []).append(item)
    plain: list[ProcessRecording] = []
    for item in loose:
        if not item.counters:
            home = next((g for g in groups.values() if any(item.overlaps(o) for o in g)), None)
            (plain if home is None else home).append(item)
    return [*([plain] if plain else []), *groups.values()]


def _check_related(group: list[ProcessRecording]) -> list[Note]:
    """Return a warning, or raise BadInput, if processes that never ran at the same time are from several runs."""
    pieces = list[list[ProcessRecording]]()  # sets of processes that are connected by overlap in time
    for item in group:
        touching = [p for p in pieces if any(item.overlaps(other) for other in p)]
        pieces = [p for p in pieces if p not in touching] + [[r for p in touching for r in p] + [item]]
    if len(pieces) < 2:
        return []
    commands = [{r.command for r in piece if r.command} for piece in pieces]
    kernels = [{name for r in piece for name, _ in r.kernels} for piece in pieces]
    known = [c for c in commands if c]
    other_program = any(not a & b for a in known for b in known)
    other_kernels = any(a and b and not a & b for a in kernels for b in kernels)
    labels = []
    for first, *_ in pieces:
        shown = plain_text(first.command, 40) if first.command else f"process {first.pid or 'unknown'}"
        labels.append(f"{first.source.name} ({shown})")
    if other_program or other_kernels or len({r.above for r in group}) > 1:
        raise refusal("unrelated_runs", count=len(pieces), names=labels)
    return [note("several_runs", processes=labels)]


def _check_same_program(passes: dict[str, list[ProcessRecording]], loose: list[ProcessRecording]) -> None:
    """Raise BadInput if passes that differ only in their counters have no kernel in common."""
    groups = [g for g in passes.values() if any(r in g for r in loose)]
    if len(groups) < 2:
        return
    kernels = [{name for r in g for name, _ in r.kernels} for g in groups]
    if not set.intersection(*kernels):
        raise refusal("other_kernels", count=len(groups), files=[group[0].source for group in groups[:_GROUPS_LISTED]])
