"""What kernels do: operations, bytes and busy cycles by the formulas of work/*.toml, summed per kernel or dispatch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from . import catalog
from .catalog import Fact
from .problems import BadInput
from .scope import Scope
from .selection import Selection
from .store import Manifest, Store, sql_literal, sql_name

if TYPE_CHECKING:
    import duckdb

_HERE = Path(__file__).parent / "work"
TIME = "time_ns"
By = Literal["kernel", "dispatch"]
Kind = Literal["flop", "iop", "inst"]
LevelName = Literal["hbm", "l2", "vl1d", "lds"]
LEVELS: tuple[LevelName, ...] = ("hbm", "l2", "vl1d", "lds")


class _Entry(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    name: str
    gpus: list[str] | None = None
    """Targets whose counters can count it; None for all of the family."""
    source: str = ""


class Like(_Entry):
    """Another ceiling that bounds the same thing, times a factor."""

    factor: float


class Bound(_Entry):
    """Something with a ceiling: ``ceiling`` lists SQL expressions over device facts; the first that can be
    evaluated counts."""

    unit: str
    ceiling: list[str]
    like: Like | None = None

    @property
    def key(self) -> str:
        """The name of its ceiling in the store."""
        return self.name


class Level(Bound):
    """One level of memory: bytes and transactions of a dispatch; ``least`` and ``most`` bound the bytes where the
    counters for them may be missing."""

    bytes: str = ""
    transactions: str = ""
    least: str = ""
    most: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        """The name of its ceiling in the store."""
        return f"{self.name}.bw"


class Operation(Bound):
    """One kind of work; its name is pipe.datatype."""

    kind: Kind
    count: str

    @property
    def pipe(self) -> str:
        """The hardware unit that does it: valu or matrix."""
        return self.name.split(".")[0]

    @property
    def datatype(self) -> str:
        """The part after the dot, such as f32."""
        return self.name.split(".")[-1]


class Busy(_Entry):
    """Cycles in which a unit was busy, and cycles that there were."""

    busy: str
    cycles: str


class Family(pydantic.BaseModel):
    """All formulas of a family of targets, as they stand on one of them."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    family: str
    facts: dict[str, Fact] = {}
    level: list[Level]
    operation: list[Operation] = []
    ceiling: list[Bound] = []
    busy: list[Busy] = []
    extra: dict[str, str] = {}

    @property
    def bounds(self) -> list[Bound]:
        """Everything that has a ceiling."""
        return [*self.level, *self.operation, *self.ceiling]

    def operations(self, target: str, *kinds: Kind) -> list[Operation]:
        """The operations of these kinds that a target's counters can count."""
        return [o for o in self.operation if o.kind in kinds and (o.gpus is None or target in o.gpus)]


@cache
def family(name: str, target: str) -> Family:
    """The formulas of a family with what the target changes (``on.<target>``) applied."""
    data: dict[str, Any] = tomllib.loads((_HERE / f"{name}.toml").read_text(encoding="utf-8"))
    for key in ("level", "operation", "busy"):
        data[key] = [
            {k: v for k, v in entry.items() if k != "on"} | entry.get("on", {}).get(target, {})
            for entry in data.get(key, [])
        ]
    return Family.model_validate(data)


def formulas(target: str) -> dict[str, str]:
    """Every quantity that the rooflines of a target use: operations by name; per level the bytes by its name, and
    ``.transactions``, ``.least``, ``.most``; ``.busy`` and ``.cycles`` of units; instruction counts."""
    known = family(catalog.gpu(target).family, target)
    found = {o.name: o.count for o in known.operations(target, "flop", "iop", "inst")}
    for level in known.level:
        parts = {"": level.bytes, ".transactions": level.transactions, ".least": level.least, ".most": level.most}
        found |= {f"{level.name}{part}": formula for part, formula in parts.items() if formula}
    for unit in known.busy:
        if unit.gpus is None or target in unit.gpus:
            found |= {f"{unit.name}.busy": unit.busy, f"{unit.name}.cycles": unit.cycles}
    return found | known.extra


@dataclass(frozen=True)
class Done:
    """What one kernel (or dispatch) did. ``parts`` holds sums over the dispatches that have the same quantities."""

    kernel: str
    dispatch: int | None
    dispatches: int
    parts: list[tuple[int, dict[str, float]]]

    def has(self, name: str) -> bool:
        """Whether any dispatch has a value of this quantity."""
        return any(name in sums for _, sums in self.parts)

    def over(self, names: Iterable[str]) -> tuple[int, dict[str, float]]:
        """The number of dispatches that have all of these quantities, and their sums over exactly those."""
        wanted = set(names)
        fit = [(n, sums) for n, sums in self.parts if wanted <= sums.keys()]
        return sum(n for n, _ in fit), {name: sum(sums[name] for _, sums in fit) for name in wanted} if fit else {}


@dataclass(frozen=True)
class Collected:
    """The work of the groups asked for, longest total time first, what was missing, and how many groups there are."""

    groups: list[Done]
    missing: dict[str, str]
    total: int


def collect(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    chosen: Selection,
    wanted: Mapping[str, str],
    by: By,
    limit: int,
    offset: int,
) -> Collected:
    """Evaluate formulas over the selected dispatches and sum them per kernel or dispatch.

    Quantities are summed together with the pattern of those that a dispatch lacks, so that figures made of several
    can be restricted to the dispatches that have all of them. ``time_ns`` (the run time) is always among them.
    """
    counters = store.file(manifest, "counters")
    if counters is None:
        raise BadInput(f"Workload {manifest.name!r} has no counters", fix="Profile with counters and import that")
    scope = Scope(manifest, has_instances=False)
    missing: dict[str, str] = {}
    ready = {TIME: "CASE WHEN duration_ns > 0 THEN duration_ns END"}
    for name, formula in wanted.items():
        lacks, _ = scope.resolve([formula])
        if lacks:
            missing[name] = ", ".join(lacks[:3]) + (" ..." if len(lacks) > 3 else "")
        else:
            ready[name] = formula
    where, total = _page(con, store, manifest, chosen, by, limit, offset)
    source = f"read_parquet({sql_literal(str(counters))}) w"
    if scope.launch:
        source += f" JOIN read_parquet({sql_literal(str(store.file(manifest, 'dispatches')))}) d USING (dispatch_id)"
    base = scope.with_constants(f"SELECT w.dispatch_id, {', '.join(scope.columns())} FROM {source} WHERE {where}")
    values = ", ".join(f"({formula})::DOUBLE AS {sql_name(name)}" for name, formula in ready.items())
    pattern = ", ".join(f"CASE WHEN {sql_name(name)} IS NULL THEN '0' ELSE '1' END" for name in ready)
    sums = ", ".join(f"sum({sql_name(name)})" for name in ready)
    key = "kernel, dispatch_id" if by == "dispatch" else "kernel, NULL::BIGINT"
    rows = con.execute(
        f"SELECT {key}, concat({pattern}) AS pattern, count(*), {sums} "
        f"FROM (SELECT kernel, dispatch_id, {values} FROM ({base})) GROUP BY ALL"
    ).fetchall()
    groups: dict[tuple[str, int | None], list[tuple[int, dict[str, float]]]] = {}
    for kernel, dispatch, _, n, *totals in rows:
        found = {name: float(v) for name, v in zip(ready, totals, strict=True) if v is not None}
        groups.setdefault((kernel, dispatch), []).append((n, found))
    done = [Done(k, d, sum(n for n, _ in parts), parts) for (k, d), parts in groups.items()]
    rank = {kernel: i for i, kernel in enumerate(chosen.kernels)}
    done.sort(key=lambda g: (-sum(sums.get(TIME, 0.0) for _, sums in g.parts), rank[g.kernel], g.dispatch or 0))
    return Collected(done, missing, total)


def _page(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    chosen: Selection,
    by: By,
    limit: int,
    offset: int,
) -> tuple[str, int]:
    """The condition for the kernels or dispatches of one page, longest first, and how many there are."""
    if by == "kernel":
        listed = ", ".join(map(sql_literal, chosen.kernels[offset : offset + limit]))
        return f"{chosen.condition('w')} AND w.kernel IN ({listed or 'NULL'})", len(chosen.kernels)
    path = sql_literal(str(store.file(manifest, "dispatches")))
    rows = con.execute(
        f"SELECT dispatch_id, count(*) OVER () FROM read_parquet({path}) d WHERE {chosen.condition('d')} "
        f"ORDER BY duration_ns DESC NULLS LAST, dispatch_id LIMIT {limit} OFFSET {offset}"
    ).fetchall()
    return f"w.dispatch_id IN ({', '.join(str(r[0]) for r in rows) or 'NULL'})", rows[0][1] if rows else 0
