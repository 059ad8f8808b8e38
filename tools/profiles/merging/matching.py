"""Match the launches of several passes: the same process, device, kernel, grid and ordinal mean the same launch.

Every pass runs the program again, so a launch of one pass is found in another by what it is and by how many launches
like it came before. The ordinal counts the launches of one group (process, device, kernel, grid) in the order of their
dispatch ids. Ids themselves may differ between passes::

    pass 1 (main)                             pass 2
    id  process  device  kernel  grid  ordinal    id  process  device  kernel  grid  ordinal
     0     1        0    copy    1024     1  <---> 0     1        0    copy    1024     1
     1     1        0    gemm    4096     1  <---> 1     1        0    gemm    4096     1
     2     1        0    gemm    4096     2  <---> 3     1        0    gemm    4096     2
     3     1        0    gemm    8192     1  <---> 2     1        0    gemm    8192     1
     4     1        1    copy    1024     1        -   no such launch: its counters of pass 2 are NULL
     -   no such launch: it is skipped             4     1        0    fill     512     1

If a pass has only some launches of a group, ordinals would pair the wrong ones, so dispatch ids are compared instead,
provided that they find all launches of the pass.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.text import first_few
from ...base.untrusted_text import plain_kernel_name, plain_text, visible_name
from ..parsing.module_data import module_data
from .contract import Connection, PassTable, all_rows, count_rows, one_row
from .demangled_names import with_readable
from .ranks import ProcessPlace
from .wording import note

SAMPLE = "sample.json"
_LEVELS = 3
"""Folder levels that profilers create (host, process) between the folder of the step and the files."""
_MOST_BYTES, _MOST_SKIPPED = 1 << 20, 2**31
_LARGEST = 2**63


@dataclass(frozen=True)
class CountingSample:
    """How the launches that a pass counted are found among all launches."""

    skip: int | None = None
    """Number of launches of each configuration that were skipped before the first counted one.

    None if the profiler numbers launches as in the timing run.
    """
    expected: tuple[int, ...] = ()
    """Dispatch ids in the timing run of the launches to be counted, in order; empty if ``skip`` is sufficient."""

    def text(self) -> str:
        """Return the content of the file ``sample.json``."""
        more = {"expected": list(self.expected)} if self.expected else {}
        return json.dumps({"skip": self.skip, **more})


def read_counting_sample(source: Path) -> CountingSample | None:
    """Read how a pass was sampled from ``sample.json`` in a folder around ``source``; None if all launches counted."""
    for folder in list(source.parents)[:_LEVELS]:
        path = folder / SAMPLE
        if path.is_file() and path.stat().st_size < _MOST_BYTES:
            try:
                content = json.loads(path.read_bytes())
                skip, expected = content["skip"], tuple(content.get("expected", ()))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                return None
            known = skip is None or (isinstance(skip, int) and 0 <= skip < _MOST_SKIPPED)
            numbered = all(isinstance(n, int) and 0 <= n < _LARGEST for n in expected)
            return CountingSample(skip, expected) if known and numbered else None
    return None


_LISTED = 4
_SQL = module_data(__file__)
_SAME = "process, device_id, kernel_id, grid, workgroup_size"
"""Columns that define a launch configuration in all passes; ``_TURN`` numbers the launches within one."""
_TURN = f"row_number() OVER (PARTITION BY {_SAME} ORDER BY dispatch_id NULLS LAST, row)"


@dataclass
class LaunchMatching:
    """How the launches of all passes match; ``names``, ``keys`` and ``pairs`` are names of database tables."""

    names: str
    """Table with name_id, kernel_id, text (as in the profile), raw (cleaned), kernel (readable, demangled_names.py)."""
    keys: list[str]
    """For every pass, a table with row, process, device_id, name_id, kernel_id, grid, workgroup_size, dispatch_id,
    given_id, times, ordinal, nth."""
    pairs: list[str] = field(default_factory=lambda: [""])
    """For every pass, a table with main_row, row, duration_ns; empty for the first pass."""
    matched: list[int] = field(default_factory=list)
    """For every pass, the number of launches that match a launch of the first pass."""
    sampled: bool = False
    """Whether a pass counted only some launches of each launch configuration."""
    places: dict[int, ProcessPlace] = field(default_factory=dict)
    """The place of each process of the main pass, by the numbers of processes in ``keys``."""
    warnings: list[Note] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def match(con: Connection, tables: Sequence[PassTable]) -> LaunchMatching:
    """Match the launches of every pass with those of the first pass, the main one.

    Launches match by device, kernel, grid and ordinal, in the order of their ids, and by process if there are several,
    since every process numbers its dispatches from the start. Processes are numbered by the reader, else in the order
    of their first devices and then of their pids: launchers give each rank its own device, but arbitrary pids. A pass
    that lacks some launches of a kernel is matched by dispatch id instead, provided that all of its launches are found.
    """
    main = tables[0]
    result = LaunchMatching("kernel_names", [f"keys_{i}" for i in range(len(tables))], matched=[main.rows])
    result.warnings += _write_names(con, tables, result.names)
    process = "process" if all("process" in t.stated for t in tables) else "1"
    # Whether processes can be distinguished by their pids only.
    by_id = process == "1" and all("pid" in t.stated for t in tables) and any(t.differs_in("pid") for t in tables)
    for number, (table, keys) in enumerate(zip(tables, result.keys, strict=True)):
        rows = table.launches
        if by_id:
            ranked = f"{result.names}_processes_{number}"
            # By the first device of each and then by their pids.
            devices = f"SELECT pid, min(coalesce(device_id, 0)) AS first_device FROM {rows} GROUP BY pid"
            order = "row_number() OVER (ORDER BY first_device, pid) AS nth_process"
            con.execute(f"CREATE OR REPLACE TABLE {ranked} AS SELECT pid, {order} FROM ({devices})")
            joined = f"SELECT l.*, nth_process FROM {rows} l JOIN {ranked} r ON l.pid IS NOT DISTINCT FROM r.pid"
            rows, process = f"({joined})", "nth_process"
        number_of = "given_id" if "dispatch_id" in table.stated else "row"
        select = _SQL["keys"].format(launches=rows, process=process, number=number_of, names=result.names)
        con.execute(f"CREATE OR REPLACE TABLE {keys} AS {select}")
    ordered = all_rows(con, f"SELECT pid FROM {result.names}_processes_0 ORDER BY nth_process") if by_id else []
    result.places = _places(tables, [pid for (pid,) in ordered])
    _number_dispatches(con, main, result)
    filtered: dict[tuple[str, int], list[str]] = {}
    for index, table in enumerate(tables[1:], 1):
        pairing = _Pairing(con, result.names, result.keys[0], result.keys[index], f"pairs_{index}")
        sample = read_counting_sample(table.source)
        matched = pairing.pair_launches(main, table) if sample is None else pairing.pair_sample(sample, table.rows)
        result.pairs.append(pairing.pairs)
        result.matched.append(matched)
        result.sampled = result.sampled or sample is not None
        missing = main.rows - matched
        if sample:
            if lost := table.rows - matched:
                result.warnings.append(note("unmatched.sampled", name=table.name, lost=lost, rows=table.rows))
        elif matched == table.rows and missing and (kernels := pairing.only_kernels(missing)):
            filtered.setdefault((kernels, missing), []).append(table.name)
        elif matched < table.rows or missing:
            result.warnings.append(
                note(
                    "unmatched.launches",
                    name=table.name,
                    matched=matched,
                    only_here=table.rows - matched,
                    missing=missing,
                )
            )
    for (kernels, missing), names in filtered.items():
        result.notes.append(note("filtered.passes", kernels=kernels, passes=names, missing=missing))
    return result


@dataclass(frozen=True)
class _Pairing:
    """Two passes to match, given by their tables of keys; the result is the table ``pairs``."""

    con: Connection
    names: str
    main: str
    other: str
    pairs: str

    def pair_launches(self, main: PassTable, other: PassTable) -> int:
        """Write the pairs and return their number."""
        both_grids = {"grid"} <= main.stated & other.stated
        kernel = "process, device_id, kernel_id, grid" if both_grids else "process, device_id, kernel_id"
        turn = f"{kernel}, {'nth' if both_grids else 'ordinal'}"
        matched = self._pair_by(turn)
        # With some but not all launches of a kernel and size, ordinals are misleading.
        if matched < main.rows and count_rows(self.con, self._sql("partial", kernel=kernel)):
            by_id = self._pair_by_id(kernel, other.rows)
            matched = by_id if by_id == other.rows else self._pair_by(turn)
        return matched

    def _pair_by_id(self, kernel: str, rows: int) -> int:
        """Pair launches by dispatch id if that finds all of them; else by id minus the most frequent difference.

        A program that launches one kernel more before its loop, such as a search for the fastest kernel, gives higher
        numbers to all following launches.
        """
        paired = self._pair_by(f"{kernel}, given_id")
        if paired == rows:
            return paired
        return self._write_pairs(self._sql("shifted_ids", kernel=kernel))

    def pair_sample(self, sample: CountingSample, rows: int) -> int:
        """Pair the launches of a pass that counted some launches of each configuration, by the method it specifies."""
        if sample.expected:
            paired = self._write_pairs(self._sql("expected"), list(sample.expected))
        elif sample.skip is None:
            paired = self._pair_by_id(_SAME, rows)
        else:
            # If the runs launch in a different order, a counted launch is paired with any other of its configuration.
            return self._write_pairs(self._sql("skipped", skip=sample.skip))
        if paired < rows:
            self.con.execute(self._sql("left"))
        return count_rows(self.con, self.pairs)

    def _sql(self, name: str, **words: object) -> str:
        """Return the SQL ``name`` of matching.toml for the two passes."""
        tables = {"main": self.main, "other": self.other, "pairs": self.pairs}
        return str(_SQL[name].format(same=_SAME, turn=_TURN, **tables, **words))

    def _pair_by(self, key: str) -> int:
        return self._write_pairs(f"{self.main} m JOIN {self.other} o USING ({key})")

    def _write_pairs(self, joined: str, *parameters: list[int]) -> int:
        """Write the pairs of ``joined``, launches m of the main pass and o of the other; return their number."""
        select = f"SELECT m.row AS main_row, o.row, o.duration_ns FROM {joined}"
        self.con.execute(f"CREATE OR REPLACE TABLE {self.pairs} AS {select}", parameters)
        return count_rows(self.con, self.pairs)

    def only_kernels(self, missing: int) -> str:
        """Return the kernels of the pass if it lacks only launches of other kernels; else an empty text."""
        own = f"SELECT kernel_id FROM {self.other}"
        if count_rows(self.con, f"{self.main} WHERE kernel_id NOT IN ({own})") != missing:
            return ""
        kernels = all_rows(
            self.con, f"SELECT DISTINCT kernel FROM {self.names} WHERE kernel_id IN ({own}) ORDER BY kernel"
        )
        return first_few([plain_text(kernel, 60) for (kernel,) in kernels], _LISTED)


def _write_names(con: Connection, tables: Sequence[PassTable], names: str) -> list[Note]:
    """Write the table of distinct kernel names, cleaned; rows of all passes refer to it by number."""
    texts = " UNION ".join(f"SELECT DISTINCT kernel AS text FROM {t.launches}" for t in tables)
    visible = f"SELECT text, {visible_name('text')} AS raw FROM ({texts})"
    readable = with_readable(con, f"SELECT *, {plain_kernel_name('raw')} AS kernel FROM ({visible})")
    con.execute(
        f"CREATE OR REPLACE TABLE {names} AS SELECT CAST(row_number() OVER () AS INT) AS name_id, "
        f"CAST(dense_rank() OVER (ORDER BY kernel) AS INT) AS kernel_id, * FROM {readable}"
    )
    unclean, unnamed = one_row(
        con,
        f"SELECT count(*) FILTER (raw != trim(text) AND text != ''), count(*) FILTER (raw = '(no name)') FROM {names}",
    )
    warnings = []
    if unclean:
        warnings.append(note("unclean_names", count=unclean))
    if unnamed:
        warnings.append(note("no_name"))
    return warnings


def _places(tables: Sequence[PassTable], pids: Sequence[int | None]) -> dict[int, ProcessPlace]:
    """Return the place of each process of the main pass, by the numbers that ``match`` gave them."""
    stated = dict(tables[0].places)
    if all("process" in t.stated for t in tables):
        return stated
    by_id = {place.pid: place for place in stated.values() if place.pid is not None}
    if len(by_id) != len(stated):
        return {}
    ordered = pids or sorted(by_id)
    return {number: by_id[pid] for number, pid in enumerate(ordered, 1) if pid in by_id}


def _number_dispatches(con: Connection, main: PassTable, result: LaunchMatching) -> None:
    """Renumber the launches of the main pass if their ids are not unique."""
    keys = result.keys[0]
    total, distinct = one_row(con, f"SELECT count(*), count(DISTINCT dispatch_id) FROM {keys}")
    if total == distinct:
        return
    con.execute(f"UPDATE {keys} SET dispatch_id = row")
    if main.differs_in("process"):
        result.notes.append(note("renumbered.processes"))
        return
    result.warnings.append(note("renumbered.repeated", file=main.source))


def pair_repeated_launches(theirs: str, ours: str) -> str:
    """Return SQL for the rows of ``theirs`` with a column ``repeats``: the id of the launch in ``ours`` it repeats.

    Both are SELECTs with id (in launch order), kernel, grid and workgroup_size; NULL if ``ours`` has none like it.
    """
    return str(_SQL["repeated"].format(theirs=theirs, ours=ours))
