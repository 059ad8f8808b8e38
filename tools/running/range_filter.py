"""Select the launches within a range that the program marked (ROCTX, NVTX, PyTorch operators)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.base.database import column_names, sql_literal, sql_path
from ...analysis.base.problems import NotFound, near
from ..base.untrusted_text import plain_text
from .wording import problem

if TYPE_CHECKING:
    import duckdb


_NAMES = 1000
_MOST_CHAINS = 32
_DEEPEST = 64
_MARKERS = "Is it marked (torch.cuda.nvtx.range_push), and did the run record ranges?"


@dataclass(frozen=True)
class RangePath:
    """The names of a range and of the ranges around it, within one domain."""

    names: tuple[str, ...]
    """Names from an outer range to the range itself, each directly inside the previous one."""
    domain: str | None = None
    """NVTX domain; None is the default domain."""


@dataclass(frozen=True)
class RangeFilter:
    """A requested range, in every form in which the program may have named it."""

    chains: tuple[RangePath, ...]
    """A launch inside any of these is inside the range."""
    one_thread: bool = False
    """Whether one thread of each process opened all ranges, so that launches of other threads belong to it too."""


class NoRanges(NotFound):
    """No ranges were recorded at all, so it is not known whether the program has any."""


def range_filter_of_text(text: str) -> RangeFilter:
    """Interpret ``text`` without a recording: as the name of a range, or as a path of several names."""
    parts = tuple(text.split("/"))
    path = [RangePath(parts)] if len(parts) > 1 and all(parts) else []
    return RangeFilter((RangePath((text,)), *path))


def range_filter_of_recording(con: duckdb.DuckDBPyConnection, folder: Path, text: str) -> RangeFilter:
    """Return the ranges of a recording that ``text`` refers to; ``range_condition`` has checked that there are some.

    Raises BadArgument if it refers to too many different names.
    """
    table = f"read_parquet({sql_path(folder / 'ranges.parquet')})"
    stated = column_names(con, table)
    domain = "domain" if "domain" in stated else "NULL"
    named = f"(SELECT DISTINCT path, name, {domain} AS domain FROM {table})"
    ends = f"ends_with('/' || path, '/' || {sql_literal(text)})"
    rows = con.execute(f"FROM {named} WHERE {ends} ORDER BY ALL LIMIT {_NAMES}").fetchall()
    chains = dict.fromkeys(_range_path(con, named, row, text) for row in rows)
    if len(chains) > _MOST_CHAINS:
        raise problem("too_many_ranges", chains=len(chains), text=plain_text(text, 80), most_chains=_MOST_CHAINS)
    threads = f"SELECT max(n) FROM (SELECT count(DISTINCT thread) AS n FROM {table} GROUP BY pid)"
    return RangeFilter(tuple(chains), con.execute(threads).fetchone() == (1,))


def _range_path(con: duckdb.DuckDBPyConnection, named: str, row: tuple[str, str, str | None], text: str) -> RangePath:
    """Return the name of one range and those enclosing ranges in the same domain that ``text`` names."""
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
    """Return an SQL condition on the dispatches in ``folder`` that selects launches inside range ``name``.

    ``name`` is the name of a range or the end of its path (``step/forward``); nested ranges count. Raises NotFound with
    similar names if there is no such range or it launched no kernel, and NoRanges if the run recorded no ranges.
    """
    ranges, dispatches = folder / "ranges.parquet", folder / "dispatches.parquet"
    shown = plain_text(name, 80)
    if not ranges.is_file():
        raise NoRanges(f"The program has no range {shown!r}", "no range was recorded", _MARKERS)
    wanted = sql_literal(name)
    # With slashes added at both ends, names and paths match in the same way.
    inside = f"contains('/' || path || '/', '/' || {wanted} || '/')"
    ranges_inside = f"(SELECT range_id FROM read_parquet({sql_path(ranges)}) WHERE {inside})"
    if not con.execute(f"FROM {ranges_inside} LIMIT 1").fetchone():
        rows = con.execute(f"SELECT DISTINCT name FROM read_parquet({sql_path(ranges)}) LIMIT {_NAMES}").fetchall()
        raise problem("no_such_range", shown=shown, name=near(name, [str(row[0]) for row in rows]))
    in_range = f"range_id IN {ranges_inside}"
    if not con.execute(f"SELECT 1 FROM read_parquet({sql_path(dispatches)}) WHERE {in_range} LIMIT 1").fetchone():
        raise problem("empty_range", shown=shown)
    return in_range


LONGEST_NAME = 200
"""Maximum characters of a kernel name in a filter; kernels that share this prefix are counted too."""
_SPECIAL, _ESCAPED = re.compile(r"[\\^$.*+?()\[\]{}|]"), r"\\\g<0>"


def choose_iterations(
    launches: Iterable[tuple[str, Hashable, int]], skip: int, count: int
) -> dict[str, tuple[int, ...]]:
    """Return for each kernel the launch numbers that include ``count`` of each configuration after the first ``skip``.

    ``launches`` yields kernel, configuration and the launch's number among the launches of the kernel. A configuration
    with fewer launches contributes its last ones. Numbers that are already chosen for another configuration are
    preferred: a profiler that takes one list of numbers for all kernels then counts fewer unwanted launches.
    """
    of: dict[tuple[str, Hashable], list[int]] = {}
    for kernel, configuration, number in launches:
        of.setdefault((kernel, configuration), []).append(number)
    taken: set[int] = set()
    wanted: dict[str, set[int]] = {}
    # Start with the rarest configurations, which have the fewest alternatives.
    once = {key: sorted(set(numbers)) for key, numbers in of.items()}  # processes number their launches independently
    for (kernel, _), numbers in sorted(once.items(), key=lambda item: (len(item[1]), item[1])):
        candidates = numbers[skip:] if len(numbers) >= skip + count else numbers[-count:]
        picked = sorted(candidates, key=lambda n: (n not in taken, n))[:count]
        taken.update(picked)
        wanted.setdefault(kernel, set()).update(picked)
    return {kernel: tuple(sorted(numbers)) for kernel, numbers in wanted.items()}


def exact_names_pattern(names: Sequence[str]) -> str:
    """Return an ECMAScript regular expression that matches exactly these names, or the first part of long names."""
    parts = [f"^{_SPECIAL.sub(_ESCAPED, n[:LONGEST_NAME])}{'' if len(n) > LONGEST_NAME else '$'}" for n in names]
    return "|".join(dict.fromkeys(parts))


def number_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as rocprofv3 expects them: ``[3,5,9-11]``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return f"[{','.join(str(a) if a == b else f'{a}-{b}' for a, b in parts)}]"


def counted_besides(iterations: Mapping[str, Sequence[int]]) -> int:
    """Upper bound of the unwanted launches that one list of numbers for all kernels counts."""
    union = {number for numbers in iterations.values() for number in numbers}
    return sum(len(union) - len(set(numbers)) for numbers in iterations.values())
