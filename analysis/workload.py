"""One workload opened for questions: its manifest, target and facts, its tables as relations, and selections of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .catalogue.targets import Gpu, gpu
from .database import connect, sql_literal, sql_path
from .problems import BadArgument, BadInput, NotFound, near
from .store import Manifest, Store

if TYPE_CHECKING:
    import duckdb

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
        parts = []
        if self.ranges is not None:
            parts.append(_in_ranges(self.ranges, table))
        if not self.every_kernel:
            parts.append(f"{table}.kernel IN ({', '.join(map(sql_literal, self.kernels)) or 'NULL'})")
        return " AND ".join(parts) or "true"

    def only(self, kernels: Sequence[str]) -> Selection:
        """The same dispatches of some of its kernels."""
        return Selection(list(kernels), self.every_kernel and list(kernels) == self.kernels, self.ranges)


@dataclass(frozen=True)
class KernelTime:
    """One kernel among all of a workload: rank by total time, share of it in percent (None without times), launches."""

    rank: int
    kernel: str
    share_pct: float | None
    launches: int


class Workload:
    """A workload of a store. Use it as a context manager: it holds a cursor of its own, for one thread."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store = store
        self.manifest = manifest

    @classmethod
    def open(cls, store: Store, workload: str | Manifest) -> Workload:
        """The workload meant by a manifest, an id, a unique id prefix, a name or ``latest``; NotFound where none is."""
        return cls(store, workload if isinstance(workload, Manifest) else store.resolve(workload))

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *_: object) -> None:
        if "cursor" in self.__dict__:
            self.cursor.close()
            del self.__dict__["cursor"]

    @cached_property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB cursor, opened when first asked for."""
        return connect()

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def arch(self) -> str:
        """The name of its GPU target; empty where the profile does not state one."""
        return self.manifest.arch or ""

    @property
    def target(self) -> Gpu:
        """Its GPU target; NotFound where it is not stated or has no file."""
        return gpu(self.arch)

    @property
    def facts(self) -> dict[str, float]:
        """The facts that formulas may use: those of the target, overridden by what the profile states."""
        return {name: fact.value for name, fact in self.target.facts.items()} | self.manifest.facts

    def has(self, table: str) -> bool:
        """Whether it has a table (passes, dispatches, counters, counter_instances, ceilings, kernel_stats)."""
        return self.store.file(self.manifest, table) is not None

    def relation(self, table: str) -> str:
        """SQL that reads one table from its file; BadInput where the workload has no such table."""
        path = self.store.file(self.manifest, table)
        if path is None:
            raise BadInput(f"Workload {self.name!r} has no {table}", *_LACKING.get(table, ("", _AGAIN)))
        return f"read_parquet({sql_path(path)})"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query of ours; relations come from ``relation``."""
        return self.cursor.execute(sql).fetchall()

    @cached_property
    def kernels(self) -> dict[str, KernelTime]:
        """Every kernel by its name, longest total time first."""
        rows = self.rows(
            "SELECT kernel, 100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0), count(*) "
            f"FROM {self.relation('dispatches')} GROUP BY kernel {_BY_TIME}"
        )
        return {kernel: KernelTime(rank, kernel, share, n) for rank, (kernel, share, n) in enumerate(rows, 1)}

    @cached_property
    def passes(self) -> dict[str, frozenset[str]]:
        """Pass -> its columns of the table counters, in order; empty where the profile does not tell its passes."""
        if not self.has("passes"):
            return {}
        rows = self.rows(f"SELECT name, counters FROM {self.relation('passes')} ORDER BY pass_id")
        return {name: frozenset(listed.split(",")) for name, listed in rows if listed}

    def select(
        self, kernel: str | Sequence[str] | None = None, dispatches: str | Sequence[int] | None = None
    ) -> Selection:
        """The kernels and dispatches asked for.

        ``kernel`` is a regular expression searched in the kernel's name, "#1" (several: "#1,#3") for ranks by total
        time among the selected dispatches, or a list of exact names. ``dispatches`` is a list of dispatch ids or a text
        such as "0,2,5-9". Raises NotFound with near names when nothing fits.
        """
        table = self.relation("dispatches")
        ranges = _ids(dispatches)
        everything = Selection([], True, ranges)
        names = [
            str(name)
            for (name,) in self.rows(
                f"SELECT kernel FROM {table} d WHERE {everything.condition('d')} GROUP BY kernel {_BY_TIME}"
            )
        ]
        if not names:
            raise NotFound(
                f"No dispatch of workload {self.name!r} has the id asked for",
                f"it has {self.manifest.dispatches} dispatches",
                "query_counters can list them: SELECT dispatch_id, kernel FROM dispatches",
            )
        if kernel is None:
            return Selection(names, True, ranges)
        wanted = set(self._named(kernel, names) if isinstance(kernel, str) else kernel)
        return Selection([name for name in names if name in wanted], False, ranges)

    def _named(self, pattern: str, names: list[str]) -> list[str]:
        if _RANKS.fullmatch(pattern):
            ranks = [int(r) for r in re.findall(r"\d+", pattern)]
            if outside := [r for r in ranks if not 1 <= r <= len(names)]:
                raise NotFound(
                    f"There is no kernel of rank #{outside[0]}", f"{self.name!r} has ranks #1 to #{len(names)}"
                )
            return [names[r - 1] for r in ranks]
        if pattern in names:
            return [pattern]
        plain = _SUFFIX.sub("", pattern)
        try:
            compiled = re.compile(plain)
        except re.error as error:
            raise BadArgument(
                f"The kernel pattern {pattern!r} is no regular expression",
                str(error),
                "Escape special characters, or use a rank such as #1",
            ) from error
        hits = [n for n in names if n == plain] or [n for n in names if compiled.search(n)]
        if not hits:
            raise NotFound(
                f"No kernel of {self.name!r} matches {pattern!r}",
                near(pattern, names),
                "The pattern is a regular expression searched in the name; a rank such as #1 works too",
            )
        return hits


_BY_TIME = "ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
_AGAIN = "Import the profile again"
_LACKING = {
    "dispatches": (
        "it was imported from a profiler's kernel statistics, which hold no counters",
        "list_workloads shows its kernels by time; profile with counters for more",
    ),
    "counters": ("", "Profile with counters and import that"),
}
"""Why a profile may lack a table, and what to do."""


def _ids(dispatches: str | Sequence[int] | None) -> list[tuple[int, int]] | None:
    """Inclusive ranges of dispatch ids, or None for all."""
    if dispatches is None:
        return None
    if not isinstance(dispatches, str):
        return [(int(i), int(i)) for i in dispatches]
    ranges = []
    for part in dispatches.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise BadArgument(
                f"dispatches {dispatches!r} cannot be read", f"at {part.strip()!r}", 'Write ids and ranges: "0,2,5-9"'
            )
        low = int(match[1])
        ranges.append((low, int(match[2] or low)))
    return ranges


def _in_ranges(ranges: list[tuple[int, int]], table: str) -> str:
    if not ranges:
        raise BadArgument("dispatches is empty", fix='Write ids and ranges such as "0,2,5-9", or leave it out for all')
    return "(" + " OR ".join(f"{table}.dispatch_id BETWEEN {a} AND {b}" for a, b in ranges) + ")"
