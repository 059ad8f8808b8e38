"""How much the kernels of two workloads did, in the quantities that the counters of both can tell."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .. import catalog, work
from ..collect import Done, collect
from ..scope import Scope
from ..selection import Selection
from ..store import Manifest, Store
from ..work import Family, Operation
from .samples import Kernel

if TYPE_CHECKING:
    import duckdb

Role = Literal["launch", "instructions", "asked", "moved", "reuse"]
BUSY = ("clock", "concurrency")
_LEVELS = {"hbm": "hbm_bytes", "l2": "l2_bytes", "vl1d": "vl1d_bytes", "lds": "lds_bytes_moved"}


@dataclass(frozen=True)
class Known:
    """What one family of targets counts: quantities of quantities.toml by role, and pairs for clock and concurrency."""

    roles: dict[str, Role]
    stated: dict[str, list[str]]
    """Quantity -> its expressions, the first that can be evaluated counts."""


@dataclass(frozen=True)
class Side:
    """The kernels of one side of a pair, in ``rounds`` rounds of launches, with what they did where it was counted."""

    kernels: tuple[Kernel, ...]
    done: tuple[Done | None, ...]
    rounds: int

    @property
    def time_ns(self) -> float:
        """Run time of a round on average, in ns."""
        return sum(k.total_ns for k in self.kernels) / self.rounds

    def amount(self, name: str) -> float | None:
        """A quantity in one round: the mean of the launches that have it x launches of each kernel.

        None where a kernel has none, or where counters of different replays do not fit together (a negative count).
        """
        total = 0.0
        for kernel, done in zip(self.kernels, self.done, strict=True):
            n, sums = done.over([name]) if done is not None else (0, {})
            if not n:
                return None
            total += sums[name] / n * kernel.timed / self.rounds
        return total if total >= 0 else None

    def ratio(self, name: str) -> float | None:
        """The quotient of a pair of BUSY, None where it is not known or nothing."""
        of, over = self.amount(f"{name}.of"), self.amount(f"{name}.over")
        return of / over if of and over else None


@cache
def known(target: str) -> Known:
    """The quantities of quantities.toml for a target; none for a family that is not in it."""
    roles: dict[str, Role] = {}
    stated: dict[str, list[str]] = {}
    if target not in catalog.targets():
        return Known(roles, stated)
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    for role, entries in data.get(catalog.gpu(target).family, {}).items():
        for name, formulas in entries.items():
            if role == "busy":
                stated |= {f"{name}.of": [formulas[0]], f"{name}.over": [formulas[1]]}
            else:
                roles[name], stated[name] = role, formulas
    return Known(roles, stated)


def family(target: str | None) -> Family | None:
    """The formulas of work and traffic of a target, None where it has none."""
    if target not in catalog.with_metrics() or catalog.gpu(target).vendor == "cpu":
        return None
    return work.family(catalog.gpu(target).family, target)


def operations(target: str) -> list[Operation]:
    """The floating-point and integer operations that a target counts by type."""
    formulas = family(target)
    return formulas.operations(target, "flop", "iop") if formulas else []


def expressions(manifests: Sequence[Manifest]) -> dict[str, str]:
    """Quantity -> the first of its expressions that every one of these workloads of one target can evaluate.

    A quantity that one of them cannot evaluate is left out: two ways of counting are not compared.
    """
    target = manifests[0].arch or ""
    if target not in catalog.with_metrics():
        return {}
    stated = {name: [formula] for name, formula in (work.formulas(target) if family(target) else {}).items()}
    scopes = [Scope(manifest, has_instances=False) for manifest in manifests]
    found = {}
    for name, formulas in (stated | known(target).stated).items():
        for formula in formulas:
            if not any(scope.resolve([formula])[0] for scope in scopes):
                found[name] = formula
                break
    return found


def collected(
    con: duckdb.DuckDBPyConnection,
    store: Store,
    manifest: Manifest,
    names: Sequence[str],
    formulas: Mapping[str, str],
) -> dict[str, Done]:
    """What the named kernels did; empty where the workload has no counters or nothing is to be evaluated."""
    if not formulas or not names or store.file(manifest, "counters") is None:
        return {}
    chosen = Selection(list(names), False, None)
    groups = collect(con, store, manifest, chosen, formulas, "kernel", len(names), 0).groups
    return {done.kernel: done for done in groups}


def level_title(level: str) -> str:
    """What the bytes of a level are called."""
    return _LEVELS[level]
