"""The launches within a range that the program named (ROCTX, NVTX, operators), and how the range is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.database import sql_literal, sql_path
from ...analysis.problems import BadArgument, NotFound, near
from ...analysis.text import counted
from .tables.names import plain_text

if TYPE_CHECKING:
    import duckdb

_NAMES = 1000
_MOST_CHAINS = 32
_DEEPEST = 64
_MARKERS = "Is it marked (torch.cuda.nvtx.range_push), and was the run one that records ranges?"


@dataclass(frozen=True)
class Chain:
    """A range by its name and by those around it, of one domain."""

    names: tuple[str, ...]
    """From an outer range to the one meant, each directly within the one before."""
    domain: str | None = None
    """Of NVTX; None is the default domain."""


@dataclass(frozen=True)
class Within:
    """A range that somebody asked for, as the program may have named it."""

    chains: tuple[Chain, ...]
    """A launch within any of these is within the range."""
    one_thread: bool = False
    """Whether a single thread of each process opened all ranges: launches of others then work for that one."""


class NoRanges(NotFound):
    """A run recorded no ranges at all: whether the program has some is not known."""


def spelled(text: str) -> Within:
    """What ``text`` can mean where no run has told: the name of a range, or a path of several."""
    parts = tuple(text.split("/"))
    path = [Chain(parts)] if len(parts) > 1 and all(parts) else []
    return Within((Chain((text,)), *path))


def recorded(con: duckdb.DuckDBPyConnection, folder: Path, text: str) -> Within:
    """The ranges of a recording that ``text`` means, by their own names; ``condition`` has found that there are some.

    Raises BadArgument where it means too many of different names.
    """
    table = f"read_parquet({sql_path(folder / 'ranges.parquet')})"
    stated = {str(row[0]) for row in con.execute(f"DESCRIBE FROM {table}").fetchall()}
    domain = "domain" if "domain" in stated else "NULL"
    named = f"(SELECT DISTINCT path, name, {domain} AS domain FROM {table})"
    ends = f"ends_with('/' || path, '/' || {sql_literal(text)})"
    rows = con.execute(f"FROM {named} WHERE {ends} ORDER BY ALL LIMIT {_NAMES}").fetchall()
    chains = dict.fromkeys(_chain(con, named, row, text) for row in rows)
    if len(chains) > _MOST_CHAINS:
        raise BadArgument(
            f"{counted(len(chains), 'range')} of different names end in {plain_text(text, 80)!r}",
            f"a profiler is told {_MOST_CHAINS} names at most",
            "Name one of them whole",
        )
    (threads,) = con.execute(
        f"SELECT max(n) FROM (SELECT count(DISTINCT thread) AS n FROM {table} GROUP BY pid)"
    ).fetchone() or (0,)
    return Within(tuple(chains), threads == 1)


def _chain(con: duckdb.DuckDBPyConnection, named: str, row: tuple[str, str, str | None], text: str) -> Chain:
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
    return Chain(tuple(names), domain)


def condition(con: duckdb.DuckDBPyConnection, folder: Path, name: str) -> str:
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
    found = f"(SELECT range_id FROM read_parquet({sql_path(ranges)}) WHERE {inside})"
    (known,) = con.execute(f"SELECT count(*) FROM {found}").fetchone() or (0,)
    if not known:
        rows = con.execute(f"SELECT DISTINCT name FROM read_parquet({sql_path(ranges)}) LIMIT {_NAMES}").fetchall()
        raise NotFound(f"The program has no range {shown!r}", near(name, [str(row[0]) for row in rows]), _MARKERS)
    held = f"range_id IN {found}"
    (launches,) = con.execute(f"SELECT count(*) FROM read_parquet({sql_path(dispatches)}) WHERE {held}").fetchone() or (
        0,
    )
    if not launches:
        raise NotFound(f"No kernel was launched in range {shown!r}", "", "Ranges count on the thread that launches")
    return held
