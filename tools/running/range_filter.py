"""The launches within a range that the program named (ROCTX, NVTX, operators), and how the range is called."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.base.database import sql_literal, sql_path
from ...analysis.base.problems import BadArgument, NotFound, near
from ...analysis.base.text import count_text
from ..base.untrusted_text import plain_text

if TYPE_CHECKING:
    import duckdb


_NAMES = 1000
_MOST_CHAINS = 32
_DEEPEST = 64
_MARKERS = "Is it marked (torch.cuda.nvtx.range_push), and was the run one that records ranges?"


@dataclass(frozen=True)
class RangePath:
    """A range by its name and by those around it, of one domain."""

    names: tuple[str, ...]
    """From an outer range to the one meant, each directly within the one before."""
    domain: str | None = None
    """Of NVTX; None is the default domain."""


@dataclass(frozen=True)
class RangeFilter:
    """A range that somebody asked for, as the program may have named it."""

    chains: tuple[RangePath, ...]
    """A launch within any of these is within the range."""
    one_thread: bool = False
    """Whether a single thread of each process opened all ranges: launches of others then work for that one."""


class NoRanges(NotFound):
    """A run recorded no ranges at all: whether the program has some is not known."""


def range_filter_of_text(text: str) -> RangeFilter:
    """What ``text`` can mean where no run has told: the name of a range, or a path of several."""
    parts = tuple(text.split("/"))
    path = [RangePath(parts)] if len(parts) > 1 and all(parts) else []
    return RangeFilter((RangePath((text,)), *path))


def range_filter_of_recording(con: duckdb.DuckDBPyConnection, folder: Path, text: str) -> RangeFilter:
    """The ranges of a recording that ``text`` means, by their own names; there are some, says ``range_condition``.

    Raises BadArgument where it means too many of different names.
    """
    table = f"read_parquet({sql_path(folder / 'ranges.parquet')})"
    stated = {str(row[0]) for row in con.execute(f"DESCRIBE FROM {table}").fetchall()}
    domain = "domain" if "domain" in stated else "NULL"
    named = f"(SELECT DISTINCT path, name, {domain} AS domain FROM {table})"
    ends = f"ends_with('/' || path, '/' || {sql_literal(text)})"
    rows = con.execute(f"FROM {named} WHERE {ends} ORDER BY ALL LIMIT {_NAMES}").fetchall()
    chains = dict.fromkeys(_range_path(con, named, row, text) for row in rows)
    if len(chains) > _MOST_CHAINS:
        raise BadArgument(
            f"{count_text(len(chains), 'range')} of different names end in {plain_text(text, 80)!r}",
            f"a profiler is told {_MOST_CHAINS} names at most",
            "Name one of them whole",
        )
    (threads,) = con.execute(
        f"SELECT max(n) FROM (SELECT count(DISTINCT thread) AS n FROM {table} GROUP BY pid)"
    ).fetchone() or (0,)
    return RangeFilter(tuple(chains), threads == 1)


def _range_path(con: duckdb.DuckDBPyConnection, named: str, row: tuple[str, str, str | None], text: str) -> RangePath:
    """The names that ``text`` gives of one range: its own, and those around it as far as they are of its domain."""
    path, name, domain = row
    names, rest = [name], text
    while len(names) < _DEEPEST and rest.endswith(f"/{name}") and path.endswith(f"/{name}"):
        path, rest = path[: -len(name) - 1], rest[: -len(name) - 1]
        same = f"path = {sql_literal(path)} AND ends_with({sql_literal(path)}, name)"
        around = con.execute(f"SELECT name, domain FROM {named} WHERE {same} ORDER BY len(name) LIMIT 1").fetchone()
        if around is None or around[1] != domain:
            break
        name = around[0]
        names.insert(0, name)
    return RangePath(tuple(names), domain)


def range_condition(con: duckdb.DuckDBPyConnection, folder: Path, name: str) -> str:
    """SQL that holds for the launches, in the dispatches of ``folder``, that a range ``name`` or one within it made.

    ``name`` is that of a range or the end of its path (``step/forward``). NotFound with near names where none is so
    called, or none of those launched a kernel; NoRanges where the run recorded none at all.
    """
    ranges, dispatches = folder / "ranges.parquet", folder / "dispatches.parquet"
    shown = plain_text(name, 80)
    if not ranges.is_file():
        raise NoRanges(f"The program has no range {shown!r}", "no range was recorded", _MARKERS)
    wanted = sql_literal(name)
    # Names and paths alike are between slashes then.
    inside = f"contains('/' || path || '/', '/' || {wanted} || '/')"
    ranges_inside = f"(SELECT range_id FROM read_parquet({sql_path(ranges)}) WHERE {inside})"
    (known,) = con.execute(f"SELECT count(*) FROM {ranges_inside}").fetchone() or (0,)
    if not known:
        rows = con.execute(f"SELECT DISTINCT name FROM read_parquet({sql_path(ranges)}) LIMIT {_NAMES}").fetchall()
        raise NotFound(f"The program has no range {shown!r}", near(name, [str(row[0]) for row in rows]), _MARKERS)
    in_range = f"range_id IN {ranges_inside}"
    (launches,) = con.execute(
        f"SELECT count(*) FROM read_parquet({sql_path(dispatches)}) WHERE {in_range}"
    ).fetchone() or (0,)
    if not launches:
        raise NotFound(f"No kernel was launched in range {shown!r}", "", "Ranges count on the thread that launches")
    return in_range


LONGEST_NAME = 200
"""Characters of a name that are asked for; kernels that share so many are counted with it."""
_SPECIAL = re.compile(r"[\\^$.*+?()\[\]{}|]")


def choose_iterations(
    launches: Iterable[tuple[str, Hashable, int]], skip: int, count: int
) -> dict[str, tuple[int, ...]]:
    """Kernel -> the numbers of its launches that hold ``count`` of each configuration after the first ``skip``.

    ``launches`` are kernel, configuration and number among the launches of the kernel.
    A configuration with fewer launches gives the last that it has. Numbers that another configuration was given come
    first: a profiler that takes one list of numbers for all kernels then counts few launches that nobody asked for.
    """
    of: dict[tuple[str, Hashable], list[int]] = {}
    for kernel, configuration, number in launches:
        of.setdefault((kernel, configuration), []).append(number)
    taken: set[int] = set()
    wanted: dict[str, set[int]] = {}
    # The rarest first: they have no choice.
    once = {key: sorted(set(numbers)) for key, numbers in of.items()}  # other processes have the same numbers
    for (kernel, _), numbers in sorted(once.items(), key=lambda item: (len(item[1]), item[1])):
        candidates = numbers[skip:] if len(numbers) >= skip + count else numbers[-count:]
        picked = sorted(candidates, key=lambda n: (n not in taken, n))[:count]
        taken.update(picked)
        wanted.setdefault(kernel, set()).update(picked)
    return {kernel: tuple(sorted(numbers)) for kernel, numbers in wanted.items()}


def exact_names_pattern(names: Sequence[str]) -> str:
    """A regular expression, as ECMAScript reads it, for these names and no others; of long names their beginning."""
    parts = [f"^{_SPECIAL.sub(_escape, n[:LONGEST_NAME])}{'' if len(n) > LONGEST_NAME else '$'}" for n in names]
    return "|".join(dict.fromkeys(parts))


def _escape(match: re.Match[str]) -> str:
    return "\\" + match[0]


def number_ranges(numbers: Iterable[int]) -> str:
    """Numbers as rocprofv3 takes them: ``[3,5,9-11]``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return f"[{','.join(str(a) if a == b else f'{a}-{b}' for a, b in parts)}]"


def counted_besides(iterations: Mapping[str, Sequence[int]]) -> int:
    """Launches that one list of numbers for all kernels counts at most beside those asked for."""
    union = {number for numbers in iterations.values() for number in numbers}
    return sum(len(union) - len(set(numbers)) for numbers in iterations.values())
