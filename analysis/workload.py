"""An open workload: its manifest, target and facts, its tables as SQL relations, and selections of its launches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .base.database import connect, speed_up, sql_literal, sql_path
from .base.kernel_names import names_shortened_to, near_kernels, select_names
from .base.problems import BadInput, NotFound
from .base.text import count_text, names_displayed_as
from .catalogue.metrics import no_formulas, targets_with_metrics
from .catalogue.targets import Gpu, gpu, nearest, targets
from .store import dispatch_ids
from .store.doubts import Doubts
from .store.integrity import damage
from .store.manifest import manifest_doubts
from .store.schema import COLUMNS, label, number_configurations
from .store.store import Manifest, Store

if TYPE_CHECKING:
    import duckdb

_MANY_DISPATCHES = 10_000
"""From this number of dispatches on, a query is worth several threads."""
_RANKS = re.compile(r"\s*#\d{1,9}(\.\d{1,9})?(\s*,\s*#\d{1,9}(\.\d{1,9})?)*\s*", re.ASCII)
_SKIP = re.compile(r"\s*skip (\d{1,9})\s*", re.ASCII)
"""The first launches of each kernel, without knowledge of how the profile numbers launches."""
KernelUnit = Literal["kernel", "launch"]
_SUFFIX = re.compile(r"( \[clone \.kd\]| \(\.kd\)|\.kd)$")


@dataclass(frozen=True)
class Selection:
    """The selected kernels, longest total time first, and the ranges of dispatch ids (None for all)."""

    kernels: list[str]
    every_kernel: bool
    ranges: list[tuple[int, int]] | None

    def condition(self, table: str) -> str:
        """The selection as an SQL condition over the columns dispatch_id and kernel of ``table``."""
        parts = []
        if self.ranges is not None:
            parts.append(dispatch_ids.condition(self.ranges, f"{table}.dispatch_id"))
        if not self.every_kernel:
            parts.append(f"{table}.kernel IN ({', '.join(map(sql_literal, self.kernels)) or 'NULL'})")
        return " AND ".join(parts) or "true"

    def only(self, kernels: Sequence[str]) -> Selection:
        """The selection restricted to some of its kernels."""
        return Selection(list(kernels), self.every_kernel and list(kernels) == self.kernels, self.ranges)


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a workload: its rank by total time, its share of the time in percent (None without times),
    launches.

    In a workload opened by launch, it is one launch configuration.
    """

    rank: int
    kernel: str
    share_pct: float | None
    launches: int
    number: str
    """The number that selects it after a "#": the rank of the kernel, and of the configuration if it is one (1.2)."""
    configurations: int
    """The number of launch configurations of the kernel."""
    whole_kernel: str | None
    """The name of the kernel if these are all its launches; None for one of several configurations."""


class Workload:
    """A workload of a store. Use it as a context manager: it owns a cursor, for use by one thread.

    Opened by launch, every launch configuration is treated as a kernel named ``NAME [work-groups x size]``.
    """

    def __init__(self, store: Store, manifest: Manifest, by: KernelUnit = "kernel") -> None:
        self.store = store
        self.manifest = manifest
        self.by = by
        self.borrowed: str | None = None
        """The near target whose formulas are used for a target without a file; see ``borrow_formulas``."""
        self._columns_of_table: dict[str, set[str]] = {}

    @classmethod
    def open(
        cls, store: Store, workload: str | Manifest, kernel: str | None = None, by: KernelUnit = "kernel"
    ) -> Workload:
        """The workload for a manifest, an id, a unique id prefix, a name or ``latest``. Raises NotFound if there is
        none.

        ``kernel`` is the later selection: a single configuration ("#1.2") opens the workload by launch.
        """
        one = kernel is not None and _RANKS.fullmatch(kernel) is not None and "." in kernel
        return cls(
            store, workload if isinstance(workload, Manifest) else store.resolve(workload), "launch" if one else by
        )

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the cursor; errors caused by a damaged or deleted workload become a StoreProblem."""
        if "cursor" not in self.__dict__:
            return
        import duckdb

        self.cursor.close()
        del self.__dict__["cursor"]
        if isinstance(error, duckdb.Error | OSError) and (problem := damage(self.store, self.manifest)):
            raise problem from error

    @cached_property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB cursor, opened on first use."""
        cursor = connect()
        if self.manifest.dispatches > _MANY_DISPATCHES:
            speed_up(cursor)
        return cursor

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def arch(self) -> str:
        """The name of the GPU target whose formulas apply: its own, or a borrowed one; empty if none is stated."""
        return self.borrowed or self.manifest.arch or ""

    def borrow_formulas(self) -> str | None:
        """Use the formulas of the nearest target if its own has no file; return that target, or None.

        The facts of that target are not used, so that metrics which need facts of the device have no value.
        """
        own = self.manifest.arch
        if own and own not in targets() and self.manifest.counters:
            self.borrowed = nearest(own, targets_with_metrics())
        return self.borrowed

    @property
    def target(self) -> Gpu:
        """Its GPU target. Raises NotFound if it is not stated or has no file."""
        return gpu(self.arch)

    @property
    def facts(self) -> dict[str, float]:
        """The facts that formulas may use: those of the target, overridden by those of the profile."""
        stated = {} if self.borrowed else {name: fact.value for name, fact in self.target.facts.items()}
        return stated | self.manifest.facts

    def has(self, table: str) -> bool:
        """Whether it has a table (passes, dispatches, counters, counter_instances, ceilings, kernel_stats)."""
        return self.store.file(self.manifest, table) is not None

    def relation(self, table: str) -> str:
        """SQL that reads one table from its file. Raises BadInput if the workload does not have the table."""
        path = self.store.file(self.manifest, table)
        if path is None:
            raise self._no_table_problem(table)
        source = f"read_parquet({sql_path(path)})"
        lacking = self._lacking_columns(table, path)
        if table == "dispatches" and self.by == "launch":
            return f"(SELECT * REPLACE ({label()} AS kernel) FROM {self._dispatches_sql(source, lacking)})"
        if table == "counters" and self.by == "launch" and self.has("dispatches"):
            named = f"(SELECT dispatch_id, kernel FROM {self.relation('dispatches')}) named"
            return f"(SELECT c.* REPLACE (named.kernel AS kernel) FROM {source} c JOIN {named} USING (dispatch_id))"
        return self._dispatches_sql(source, lacking) if lacking else source

    def no_formulas(self) -> BadInput:
        """The error if nothing can be computed: its target has no metrics, or it contains only samples."""
        if self.has("samples") and not self.has("dispatches"):
            return self._no_table_problem("dispatches")
        return no_formulas(self.name, self.manifest.arch)

    def _no_table_problem(self, table: str) -> BadInput:
        """The error for a missing table, with the reason and what to do."""
        why = _WHY_NO_TABLE.get(table)
        if table == "dispatches":
            why = _HOST_ONLY if self.manifest.events else _CODE_ONLY if self.has("samples") else why
        return BadInput(f"Workload {self.name!r} has no {table}", *(why or ("", _AGAIN)))

    @staticmethod
    def _dispatches_sql(source: str, lacking: list[str]) -> str:
        """SQL for the launches with numbered configurations, and NULL for columns that the profile lacks."""
        empty = "".join(f", NULL::BIGINT AS {name}" for name in lacking if name != _NUMBER_COLUMN)
        filled = f"SELECT *{empty} FROM {source}"
        return f"({filled if _NUMBER_COLUMN not in lacking else number_configurations(filled)})"

    def _lacking_columns(self, table: str, path: Path) -> list[str]:
        """The optional columns that this profile lacks."""
        optional = _OPTIONAL_COLUMNS.get(table)
        if optional and table not in self._columns_of_table:
            rows = self.rows(f"SELECT name FROM parquet_schema({sql_path(path)})")
            self._columns_of_table[table] = {str(name) for (name,) in rows}
        return [name for name in optional or () if name not in self._columns_of_table[table]]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of an internal query; relations come from ``relation``."""
        return self.cursor.execute(sql).fetchall()

    @cached_property
    def kernels(self) -> dict[str, KernelTime]:
        """Every kernel by its name, longest total time first."""
        rows = self.rows(
            "SELECT kernel, 100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0), count(*), "
            f"count(DISTINCT launch) FROM {self.relation('dispatches')} GROUP BY kernel {_BY_TIME}"
        )
        if self.by == "kernel":
            return {
                kernel: KernelTime(rank, kernel, share, n, str(rank), launches, kernel)
                for rank, (kernel, share, n, launches) in enumerate(rows, 1)
            }
        known = {one.label: (number, one.kernel) for number, one in self._configurations_by_number.items()}
        configuration_counts = Counter(kernel for _, kernel in known.values())
        times = {}
        for rank, (name, share, n, _) in enumerate(rows, 1):
            number, kernel = known[name]
            several = configuration_counts[kernel]
            times[name] = KernelTime(rank, name, share, n, number, several, kernel if several == 1 else None)
        return times

    @cached_property
    def _configurations_by_number(self) -> dict[str, _ConfigurationName]:
        """Every configuration by its number, such as 1.2, for a workload opened by launch."""
        with Workload(self.store, self.manifest) as plain:
            table = plain.relation("dispatches")
        each = (
            "SELECT kernel, launch, any_value(configuration) AS configuration, sum(duration_ns) AS spent, "
            f"min(dispatch_id) AS first FROM {table} GROUP BY kernel, launch"
        )
        rows = self.rows(
            f"WITH l AS ({each}), k AS (SELECT kernel, row_number() OVER (ORDER BY sum(spent) DESC NULLS LAST, "
            "min(first)) AS rank FROM l GROUP BY kernel) "
            f"SELECT rank, launch, {label()}, kernel FROM l JOIN k USING (kernel) ORDER BY rank, launch"
        )
        return {f"{rank}.{launch}": _ConfigurationName(name, kernel) for rank, launch, name, kernel in rows}

    @cached_property
    def passes(self) -> dict[str, frozenset[str]]:
        """Pass -> its columns of the table counters, in order; empty if the profile does not list its passes."""
        if not self.has("passes"):
            return {}
        rows = self.rows(f"SELECT name, counters FROM {self.relation('passes')} ORDER BY pass_id")
        return {name: frozenset(listed.split(",")) for name, listed in rows if listed}

    @cached_property
    def doubts(self) -> Doubts:
        """The doubts about its counters and times."""
        known = manifest_doubts(self.manifest)
        return Doubts(known, self.passes if known else {})

    def select(
        self, kernel: str | Sequence[str] | None = None, dispatches: str | Sequence[int] | None = None
    ) -> Selection:
        """Select kernels and dispatches.

        ``kernel`` is a name or else a regular expression (RE2) searched in the kernel's name (see ``select_names``),
        "#1" (several: "#1,#3") for ranks by total time among the selected dispatches, or a list of exact names. In a
        workload opened by launch, a pattern selects all configurations of the matching kernels, and so does "#1";
        "#1.2" selects one. ``dispatches`` is a list of dispatch ids or a text such as "0,2,5-9", or "skip 1" for all
        but the first launch of each kernel. Raises NotFound with similar names if nothing matches.
        """
        ranges = dispatch_ids.ranges(self._remaining_ids(dispatches))
        names = self._every_kernel if ranges is None else self._kernels_of(Selection([], True, ranges))
        if not names:
            raise NotFound(
                f"No dispatch of workload {self.name!r} has the requested id",
                f"it has {count_text(self.manifest.dispatches, 'dispatch')}",
                "query_counters can list them: SELECT dispatch_id, kernel FROM dispatches",
            )
        if kernel is None:
            return Selection(list(names), True, ranges)
        wanted = set(self._kernels_named(kernel, names) if isinstance(kernel, str) else kernel)
        chosen = [name for name in names if name in wanted]
        if isinstance(kernel, str) and not chosen:
            raise NotFound(f"None of the requested dispatches belongs to {kernel[:100]!r}", fix="Omit dispatches")
        return Selection(chosen, False, ranges)

    def _remaining_ids(self, dispatches: str | Sequence[int] | None) -> str | Sequence[int] | None:
        """The ids that remain if the first launches of each kernel are skipped; otherwise those given."""
        skip = _SKIP.fullmatch(dispatches) if isinstance(dispatches, str) else None
        if skip is None:
            return dispatches
        position = "dense_rank() OVER (PARTITION BY kernel ORDER BY dispatch_id)"
        rows = self.rows(f"SELECT dispatch_id FROM {self.relation('dispatches')} QUALIFY {position} > {skip[1]}")
        if not rows:
            raise NotFound(f"{dispatches!r} leaves no launch of {self.name!r}", fix="Skip fewer launches")
        return [number for (number,) in rows]

    @cached_property
    def _every_kernel(self) -> list[str]:
        return self._kernels_of(Selection([], True, None))

    def _kernels_of(self, selection: Selection) -> list[str]:
        """The names of the kernels of these dispatches, longest total time first."""
        table, condition = self.relation("dispatches"), selection.condition("d")
        rows = self.rows(f"SELECT kernel FROM {table} d WHERE {condition} GROUP BY kernel {_BY_TIME}")
        return [str(name) for (name,) in rows]

    def _kernels_named(self, pattern: str, names: list[str]) -> list[str]:
        if _RANKS.fullmatch(pattern):
            return self._kernels_of_ranks(re.findall(r"[\d.]+", pattern), names)
        if exact := names_displayed_as(pattern, names):
            return exact
        if self.by == "launch":
            # A kernel's name was requested; the names of its configurations have a suffix.
            kernel_of_name = {one.label: one.kernel for one in self._configurations_by_number.values()}
            fitting = set(self._matching(pattern, list(dict.fromkeys(kernel_of_name[name] for name in names))))
            hits = [name for name in names if kernel_of_name[name] in fitting] or names_shortened_to(pattern, names)
        else:
            hits = self._matching(pattern, names)
        if not hits:
            raise NotFound(
                f"No kernel of {self.name!r} matches {pattern!r}",
                near_kernels(pattern, names),
                "The pattern is a regular expression searched in the name; a rank such as #1 works too",
            )
        return hits

    @staticmethod
    def _matching(pattern: str, kernels: list[str]) -> list[str]:
        """The kernels with this name, in full or as shown in answers, or else those in which the pattern is found."""
        plain = _SUFFIX.sub("", pattern)
        # Anchors apply to names as shown in answers, without the parameters that a profiler writes.
        bare = plain.removeprefix("^").removesuffix("$")
        return select_names(plain, kernels) or names_shortened_to(bare, kernels)

    def _kernels_of_ranks(self, numbers: list[str], names: list[str]) -> list[str]:
        """The kernels of these ranks; for a workload opened by launch, configuration 1.2 or all configurations of
        kernel 1."""
        if self.by == "launch":
            known = self._configurations_by_number
            keys = {number: [key for key in known if number in (key, key.partition(".")[0])] for number in numbers}
            if outside := [number for number, matches in keys.items() if not matches]:
                raise NotFound(
                    f"There is no launch configuration #{outside[0]}",
                    f"{self.name!r} has #{next(iter(known))} to #{next(reversed(known))}",
                    "list_workloads with by='launch' shows them",
                )
            return [known[key].label for matches in keys.values() for key in matches]
        ranks = [int(number) for number in numbers]
        if outside := [number for number, rank in zip(numbers, ranks, strict=True) if not 1 <= rank <= len(names)]:
            raise NotFound(f"There is no kernel of rank #{outside[0]}", f"{self.name!r} has ranks #1 to #{len(names)}")
        return [names[rank - 1] for rank in ranks]


class _ConfigurationName(NamedTuple):
    """The name of a configuration that is treated as a kernel, and its kernel."""

    label: str
    kernel: str


_NUMBER_COLUMN = "launch"
_OPTIONAL_COLUMNS = {"dispatches": (*COLUMNS, _NUMBER_COLUMN), "samples": ("lanes",), "events": ("stack",)} | {
    "host_samples": ("time_ns", "samples", "waker"),
    "ranges": ("forward_thread", "forward_ns"),
}
"""Optional integer columns, which not every profile has."""
_BY_TIME = "ORDER BY sum(duration_ns) DESC NULLS LAST, min(dispatch_id)"
_AGAIN = "Import the profile again"
_WHY_NO_TABLE = {
    "dispatches": (
        "it was imported from a profiler's kernel statistics, which contain no counters",
        "list_workloads shows its kernels by time; profile with counters for more",
    ),
    "counters": ("", "Profile with counters and import that"),
}
"""Why a profile may lack a table, and what to do."""
_HOST_ONLY = ("it is a timeline of the host without kernels", "Trace kernels too (rocprofv3 --kernel-trace)")
_CODE_ONLY = (
    "it contains program counter samples but no launches",
    "find_hotspots shows their lines; times and counters need a profile with them",
)
