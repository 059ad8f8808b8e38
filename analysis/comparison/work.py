"""What two versions of a kernel did, as the quantities that both profiles hold."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ..catalogue import metrics as catalog
from ..catalogue import targets, work_formulas
from ..catalogue.formula import first_usable
from ..catalogue.work_formulas import WorkFormulas, WorkOperation
from ..engine.compile import FormulaScope
from ..engine.work_sums import KernelWork, WorkSelection, WorkSums, collect
from ..workload import Selection, Workload
from .time_ratio import KernelTotals

Role = Literal["operations", "flop", "iop", "launch", "instructions", "asked", "written", "moved", "reuse", "setting"]
_LEVELS = {"hbm": "hbm_bytes", "l2": "l2_bytes", "vl1d": "vl1d_bytes", "lds": "lds_bytes_moved"}


@dataclass(frozen=True)
class CountedQuantities:
    """What one family of targets counts: quantities of quantities.toml by role, and pairs for clock and concurrency."""

    roles: dict[str, Role]
    stated: dict[str, list[str]]
    """Quantity -> its expressions, the first that can be evaluated counts."""


@dataclass(frozen=True)
class Side:
    """The kernels of one side of a pair, in ``rounds`` rounds of launches, with what they did where it was counted."""

    kernels: tuple[KernelTotals, ...]
    done: tuple[KernelWork | None, ...]
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
            n, sums = done.sums_over([name]) if done is not None else (0, {})
            if not n:
                return None
            total += sums[name] / n * kernel.timed / self.rounds
        return total if total >= 0 else None

    def ratio(self, name: str) -> float | None:
        """``clock`` in cycles per ns, or ``concurrency``: how much ran at once; None where not known or nothing."""
        of, over = self.amount(f"{name}.of"), self.amount(f"{name}.over")
        return of / over if of and over else None


@cache
def target_quantities(target: str) -> CountedQuantities:
    """The quantities of quantities.toml for a target; none for a family that is not in it."""
    roles: dict[str, Role] = {}
    stated: dict[str, list[str]] = {}
    if target not in targets.targets():
        return CountedQuantities(roles, stated)
    data = tomllib.loads(Path(__file__).with_name("quantities.toml").read_text(encoding="utf-8"))
    for role, entries in data.get(targets.gpu(target).family, {}).items():
        for name, formulas in entries.items():
            if role == "busy":
                stated |= {f"{name}.of": [formulas[0]], f"{name}.over": [formulas[1]]}
            else:
                roles[name], stated[name] = role, formulas
    return CountedQuantities(roles, stated)


def family(target: str | None) -> WorkFormulas | None:
    """The formulas of work and traffic of a target, None where it has none."""
    if target not in catalog.targets_with_metrics() or targets.gpu(target).vendor == "cpu":
        return None
    return work_formulas.work_formulas(targets.gpu(target).family, target)


def operations(target: str) -> list[WorkOperation]:
    """The floating-point and integer operations that a target counts by type."""
    formulas = family(target)
    return formulas.operations(target, "flop", "iop") if formulas else []


def expressions(workloads: Sequence[Workload]) -> dict[str, str]:
    """Quantity -> the first of its expressions that every one of these workloads of one target can evaluate.

    A quantity that one of them cannot evaluate is left out: two ways of counting are not compared.
    """
    target = workloads[0].arch
    if target not in catalog.targets_with_metrics():
        return {}
    stated = {name: [formula] for name, formula in (work_formulas.formulas(target) if family(target) else {}).items()}
    scopes = [FormulaScope(workload, has_instances=False) for workload in workloads]
    quantities = (stated | target_quantities(target).stated).items()
    usable = {q: first_usable(formulas, lambda n: all(s.has(n) for s in scopes)) for q, formulas in quantities}
    return {quantity: formula for quantity, formula in usable.items() if formula}


def collect_work(workload: Workload, names: Sequence[str], formulas: Mapping[str, str]) -> WorkSums:
    """What the named kernels did; nothing where the workload has no counters or nothing is to be evaluated."""
    if not formulas or not names or not workload.has("counters"):
        return WorkSums([], {}, 0, {})
    return collect(workload, formulas, WorkSelection(Selection(list(names), False, None)))


def behind(target: str, title: str) -> list[str]:
    """The collected quantities that a quantity or term of a comparison is made of."""
    if title == "flop":
        return [o.name for o in operations(target) if o.kind == "flop"]
    if title in ("clock", "concurrency"):
        return [f"{title}.of", f"{title}.over"]
    levels = {of_level: level for level, of_level in _LEVELS.items()}
    pipe = title.partition(" operations")[0]
    typed = [o.name for o in operations(target) if title.startswith(f"{o.pipe} operations")] if pipe != title else []
    return typed or [levels.get(title, title)]


def level_title(level: str) -> str:
    """What the bytes of a level are called."""
    return _LEVELS[level]


@dataclass(frozen=True)
class Quantity:
    """One quantity of a round before and after; ``ratio`` is after / before, None where nothing was done before."""

    quantity: str
    role: Role
    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before else None

    @property
    def title(self) -> str:
        """The quantity in words."""
        return self.quantity.replace("_", " ")


def evidence(target: str, before: Side, after: Side) -> list[Quantity]:
    """The quantities that both sides counted, the most telling first."""
    both = [o for o in operations(target) if _both_counted(o, before, after)]
    floats = [o.name for o in both if o.kind == "flop"]
    stated: list[tuple[str, Role, list[str]]] = [("flop", "operations", floats)] if floats else []
    stated += [(o.name, "flop" if o.kind == "flop" else "iop", [o.name]) for o in both]
    roles = target_quantities(target).roles
    first: tuple[Role, ...] = ("asked", "written")
    stated += [(name, role, [name]) for wanted in first for name, role in roles.items() if role == wanted]
    stated.append((level_title("hbm"), "moved", ["hbm"]))
    others: tuple[Role, ...] = ("moved", "instructions", "launch", "reuse")
    stated += [(name, role, [name]) for wanted in others for name, role in roles.items() if role == wanted]
    quantities = []
    for title, role, names in stated:
        amounts = [[v for name in names if (v := side.amount(name)) is not None] for side in (before, after)]
        if len(amounts[0]) == len(amounts[1]) == len(names):
            quantities.append(Quantity(title, role, sum(amounts[0]), sum(amounts[1])))
    return [q for q in quantities if q.before or q.after]


def _both_counted(operation: WorkOperation, before: Side, after: Side) -> bool:
    """Whether both sides counted a kind of operation, and its counts are nothing else in disguise."""
    sure = not operation.doubt or before.amount(operation.certain) or after.amount(operation.certain)
    return bool(sure) and before.amount(operation.name) is not None and after.amount(operation.name) is not None


def not_counted(target: str, before: Side, after: Side) -> list[str]:
    """The types of floating-point operations that one of the sides did not count."""
    kinds = [o for o in operations(target) if o.kind == "flop" and not o.optional]
    return [o.name for o in kinds if before.amount(o.name) is None or after.amount(o.name) is None]
