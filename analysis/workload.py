"""One workload opened for questions: its files as relations, and the selection of kernels and dispatches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .problems import BadArgument, BadInput, NotFound, near
from .store import Manifest, Store, sql_literal, sql_path

if TYPE_CHECKING:
    import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    """A cursor of its own, for one thread; close it after use. Starting a database each time would cost 10 ms."""
    return _database().cursor()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect()


_RANKS = re.compile(r"\s*#\d+(\s*,\s*#\d+)*\s*")
_RANGE = re.compile(r"(\d+)\s*(?:-\s*(\d+))?")
_SUFFIX = re.compile(r"( \[clone \.kd\]| \(\.kd\)|\.kd)$")


@dataclass(frozen=True)
class Selection:
    """The kernels selected, longest total time first, and the ranges of dispatch ids (None: all)."""

    kernels: list[str]
    every_kernel: bool
    ranges: list[tuple[int, int]] | None

    def condition(self, table: str) -> str:
        """The selection as a SQL condition over the columns dispatch_id and kernel of ``table``."""
        found = []
        if self.ranges is not None:
            found.append(_in_ranges(self.ranges, table))
        if not self.every_kernel:
            found.append(f"{table}.kernel IN ({', '.join(map(sql_literal, self.kernels))})")
        return " AND ".join(found) or "true"


def choose(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    kernel: str | None,
    dispatches: str | Sequence[int] | None,
) -> Selection:
    """Resolve ``kernel`` and ``dispatches`` against one workload.

    ``kernel`` is a regular expression searched in the kernel's name, or "#1" (several: "#1,#3") for ranks by total
    time among the selected dispatches. ``dispatches`` is a list of dispatch ids or a text such as "0,2,5-9".
    Raises NotFound with near names when nothing fits.
    """
    path = store.file(manifest, "dispatches")
    if path is None:
        raise BadInput(
            f"Workload {manifest.name!r} has no dispatches",
            "it was imported from a profiler's kernel statistics, which hold no counters",
            "list_workloads shows its kernels by time; profile with counters for more",
        )
    ranges = _ids(dispatches)
    everything = Selection([], True, ranges)
    ranked = con.execute(
        f"SELECT kernel FROM read_parquet({sql_path(path)}) d WHERE {everything.condition('d')} "
        "GROUP BY kernel ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
    ).fetchall()
    if not ranked:
        raise NotFound(
            f"No dispatch of workload {manifest.name!r} has the id asked for",
            f"it has {manifest.dispatches} dispatches",
            "query_counters can list them: SELECT dispatch_id, kernel FROM dispatches",
        )
    names = [str(k) for (k,) in ranked]
    if kernel is None:
        return Selection(names, True, ranges)
    wanted = set(_kernels(kernel, names, manifest))
    return Selection([k for k in names if k in wanted], False, ranges)


def _kernels(pattern: str, names: list[str], manifest: Manifest) -> list[str]:
    if _RANKS.fullmatch(pattern):
        ranks = [int(r) for r in re.findall(r"\d+", pattern)]
        if outside := [r for r in ranks if not 1 <= r <= len(names)]:
            raise NotFound(
                f"There is no kernel of rank #{outside[0]}", f"{manifest.name!r} has ranks #1 to #{len(names)}"
            )
        return [names[r - 1] for r in ranks]
    if pattern in names:
        return [pattern]
    try:
        compiled = re.compile(_SUFFIX.sub("", pattern))
    except re.error as error:
        raise BadArgument(
            f"The kernel pattern {pattern!r} is no regular expression",
            str(error),
            "Escape special characters, or use a rank such as #1",
        ) from error
    plain = _SUFFIX.sub("", pattern)
    hits = [n for n in names if n == plain] or [n for n in names if compiled.search(n)]
    if not hits:
        raise NotFound(
            f"No kernel of {manifest.name!r} matches {pattern!r}",
            near(pattern, names),
            "The pattern is a regular expression searched in the name; a rank such as #1 works too",
        )
    return hits


def _ids(dispatches: str | Sequence[int] | None) -> list[tuple[int, int]] | None:
    """Inclusive ranges of dispatch ids, or None for all."""
    if dispatches is None:
        return None
    if not isinstance(dispatches, str):
        return [(int(i), int(i)) for i in dispatches]
    found = []
    for part in dispatches.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise BadArgument(
                f"dispatches {dispatches!r} cannot be read", f"at {part.strip()!r}", 'Write ids and ranges: "0,2,5-9"'
            )
        low = int(match[1])
        found.append((low, int(match[2] or low)))
    return found


def _in_ranges(ranges: list[tuple[int, int]], table: str) -> str:
    if not ranges:
        raise BadArgument("dispatches is empty", fix='Write ids and ranges such as "0,2,5-9", or leave it out for all')
    return "(" + " OR ".join(f"{table}.dispatch_id BETWEEN {a} AND {b}" for a, b in ranges) + ")"
