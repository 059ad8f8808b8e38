"""The work of two versions of a kernel, by the quantities that both profiles contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ..catalogue import metrics as catalog
from ..catalogue import targets, work_formulas
from ..catalogue.formula import first_usable
from ..catalogue.thresholds import threshold
from ..catalogue.work_formulas import WorkFormulas, WorkOperation
from ..engine.compile import FormulaScope
from ..engine.work_sums import KernelWork, WorkSelection, WorkSums, collect
from ..workload import Selection, Workload
from .time_ratio import KernelTotals
from .wording import entries, word

Role = Literal[
    "operations",
    "flop",
    "iop",
    "launch",
    "instructions",
    "asked",
    "written",
    "moved",
    "reuse",
    "stores",
    "atomics",
    "setting",
]
LEVEL_TITLES = {"hbm": "hbm_bytes", "l2": "l2_bytes", "vl1d": "vl1d_bytes", "lds": "lds_bytes_moved"}
"""The name of the quantity for the bytes of each level."""


@dataclass(frozen=True)
class CountedQuantities:
    """The quantities that a family of targets counts, by role, and the pairs for clock and concurrency."""

    roles: dict[str, Role]
    stated: dict[str, list[str]]
    """Quantity -> its expressions, of which the first that can be evaluated is used."""


@dataclass(frozen=True)
class Side:
    """The kernels of one side of a pair, in ``rounds`` rounds of launches, with their counted work."""

    kernels: tuple[KernelTotals, ...]
    done: tuple[KernelWork | None, ...]
    rounds: int

    @property
    def time_ns(self) -> float:
        """The mean run time of a round in ns."""
        return sum(k.total_ns for k in self.kernels) / self.rounds

    def amount(self, name: str) -> float | None:
        """A quantity in one round: the mean over the launches that have it, times the launches of each kernel.

        None if a kernel lacks it, or if counters of different passes contradict each other (a negative count).
        """
        total = 0.0
        for kernel, done in zip(self.kernels, self.done, strict=True):
            n, sums = done.sums_over([name]) if done is not None else (0, {})
            if not n:
                return None
            total += sums[name] / n * kernel.timed / self.rounds
        return total if total >= 0 else None

    def ratio(self, name: str) -> float | None:
        """``clock`` in cycles per ns, or ``concurrency``, the mean number of resident waves; None if unknown or 0."""
        of, over = self.amount(f"{name}.of"), self.amount(f"{name}.over")
        return of / over if of and over else None


@cache
def target_quantities(target: str) -> CountedQuantities:
    """The quantities of quantities.toml for a target; none for an unknown family."""
    roles: dict[str, Role] = {}
    stated: dict[str, list[str]] = {}
    if target not in targets.targets():
        return CountedQuantities(roles, stated)
    data = entries("quantities")
    for role, counted in data.get(targets.gpu(target).family, {}).items():
        for name, formulas in counted.items():
            if role == "busy":
                stated |= {f"{name}.of": [formulas[0]], f"{name}.over": [formulas[1]]}
            else:
                roles[name], stated[name] = role, formulas
    return CountedQuantities(roles, stated)


def family(target: str | None) -> WorkFormulas | None:
    """The formulas for work and traffic of a target; None if it has none."""
    if target not in catalog.targets_with_metrics() or targets.gpu(target).vendor == "cpu":
        return None
    return work_formulas.work_formulas(target)


def operations(target: str) -> list[WorkOperation]:
    """The floating-point and integer operations that a target counts, by type."""
    formulas = family(target)
    return formulas.operations("flop", "iop") if formulas else []


def expressions(workloads: Sequence[Workload]) -> dict[str, str]:
    """Quantity -> the first of its expressions that all these workloads of one target can evaluate.

    A quantity that one of them cannot evaluate is omitted, because different ways of counting cannot be compared.
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
    """The work of the named kernels; empty if the workload has no counters or there is nothing to evaluate."""
    if not formulas or not names or not workload.has("counters"):
        return WorkSums([], {}, 0, {})
    return collect(workload, formulas, WorkSelection(Selection(list(names), False, None)))


def behind(target: str, title: str) -> list[str]:
    """The collected quantities from which a quantity or term of a comparison is computed."""
    if title == "flop":
        return [o.name for o in operations(target) if o.kind == "flop"]
    if title in ("clock", "concurrency"):
        return [f"{title}.of", f"{title}.over"]
    levels = {of_level: level for level, of_level in LEVEL_TITLES.items()}
    pipe = title.partition(" operations")[0]
    typed = [o.name for o in operations(target) if title.startswith(f"{o.pipe} operations")] if pipe != title else []
    return typed or [levels.get(title, title)]


@dataclass(frozen=True)
class Quantity:
    """One quantity of a round before and after; ``ratio`` is after / before, None if it was 0 before."""

    quantity: str
    role: Role
    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before else None

    @property
    def title(self) -> str:
        """The quantity as text."""
        return self.quantity.replace("_", " ")


def evidence(target: str, before: Side, after: Side) -> list[Quantity]:
    """The quantities that both sides counted, most significant first."""
    both = [o for o in operations(target) if _both_counted(o, before, after)]
    floats = [o.name for o in both if o.kind == "flop"]
    stated: list[tuple[str, Role, list[str]]] = [("flop", "operations", floats)] if floats else []
    stated += [(o.name, "flop" if o.kind == "flop" else "iop", [o.name]) for o in both]
    roles: dict[str, Role] = {"hbm": "moved", **target_quantities(target).roles}
    order: tuple[Role, ...] = ("asked", "written", "moved", "instructions", "launch", "reuse", "atomics")
    stated += [(LEVEL_TITLES.get(n, n), role, [n]) for wanted in order for n, role in roles.items() if role == wanted]
    quantities = []
    for title, role, names in stated:
        amounts = [[v for name in names if (v := side.amount(name)) is not None] for side in (before, after)]
        if len(amounts[0]) == len(amounts[1]) == len(names):
            quantities.append(Quantity(title, role, sum(amounts[0]), sum(amounts[1])))
    return [q for q in quantities if q.before or q.after]


def _both_counted(operation: WorkOperation, before: Side, after: Side) -> bool:
    """Whether both sides counted a kind of operation, and the counts do not include other operations."""
    sure = not operation.doubt or before.amount(operation.certain) or after.amount(operation.certain)
    return bool(sure) and before.amount(operation.name) is not None and after.amount(operation.name) is not None


def not_counted(target: str, before: Side, after: Side) -> list[str]:
    """The types of floating-point operations that only one side counted."""
    kinds = [o for o in operations(target) if o.kind == "flop" and not o.optional]
    return [o.name for o in kinds if before.amount(o.name) is None or after.amount(o.name) is None]


Answer = Literal["yes", "probably", "probably_not", "no", "unknown"]
DIFFERENT: tuple[Answer, ...] = ("no", "probably_not")
"""Answers with which a shorter time is not an improvement."""
SAME = threshold("comparison.same_work")
"""The relative difference up to which counts are considered equal, because of contraction and boundaries."""
OTHER = threshold("comparison.other_work")
"""The relative difference from which counts are considered different."""
_EXTRA = threshold("comparison.recomputed")
_FAR = threshold("comparison.other_data")
_LANES = 64
_OF_SIZE = ("operations", "asked", "written", "moved", "launch", "instructions")
"""The roles of quantities that follow the size of a problem."""
_BYTES = frozenset({"global_bytes_asked"})
"""Quantities of requests that are bytes; the same number of other requests can be for more data."""
_UNITS = (
    "flop",
    "global_bytes_asked",
    "hbm_bytes",
    "l2_sectors",
    "l2_requests",
    "memory_requests",
    "vl1d_requests",
    "vector_memory_instructions",
    "instructions",
)
"""The quantities that time is related to, most significant first."""


@dataclass(frozen=True)
class SameWork:
    """Whether the work was the same, why, and the quantities that show it, most significant first."""

    answer: Answer
    why: str
    evidence: list[Quantity]

    def units(self) -> list[Quantity]:
        """The quantities that time can be related to, most significant first; none is zero on either side."""
        fit = {e.quantity: e for e in self.evidence if e.before > 0 and e.after > 0}
        return [fit[name] for name in _UNITS if name in fit]


def judge(target: str, before: Side, after: Side, checked: bool | None = None) -> SameWork:
    """Compare the work of both sides in a round; ``checked`` is the result of the program's own check.

    Equal floating-point operations mean the same work, because tiling, caching and launch shapes do not change them.
    If they differ, the bytes that threads request before any cache decide: more operations for the same data are
    partial sums or recomputed values, and fewer of both in proportion mean a smaller problem. Requests alone also
    decrease if values are reused from registers or LDS, so a decrease means different work only if the traffic to HBM
    decreases too. A check that passed leaves one doubt, another problem size; one that failed leaves none.
    """
    counted = _WorkEvidence(evidence(target, before, after))
    lost = not_counted(target, before, after) + _hidden_in_atomics(counted)
    if checked is False:
        outcome = "check_failed"
    elif counted.flop:
        outcome = _by_operations(counted, counted.flop, lost)
    else:
        outcome = _by_requests(counted, counted.asked) if counted.asked else _by_the_rest(counted)
    figures = {**counted.figures, "lost": ", ".join(lost)}
    answer, why = _word_outcome(outcome, figures)
    if checked and answer != "yes":
        passed = "other_size" if counted.common_factor else "different" if answer in DIFFERENT else answer
        answer, why = _word_outcome(f"passed_{passed}", {**figures, "why": why})
    return SameWork(answer, why, counted.quantities)


def _word_outcome(outcome: str, figures: Mapping[str, Any]) -> tuple[Answer, str]:
    """The answer of an outcome, and its sentence."""
    answer, why = entries("work")[outcome]
    return answer, word(why, **figures)


class _WorkEvidence:
    """The quantities that both sides counted, and those that decide."""

    def __init__(self, quantities: list[Quantity]) -> None:
        both = [e for e in quantities if e.before and e.after]
        self.quantities = quantities
        self.flop = next((e for e in quantities if e.quantity == "flop"), None)
        self.hbm = next((e for e in quantities if e.quantity == LEVEL_TITLES["hbm"]), None)
        self.traffic = self.hbm.ratio if self.hbm else None
        self.leading: dict[str, Quantity] = {}
        """The most significant quantity of each role; none is zero on either side."""
        for e in both:
            self.leading.setdefault(e.role, e)
        self.asked = self.leading.get("asked")
        self.reuse = any(e.role == "reuse" and e.after > e.before * (1 + SAME) for e in quantities)
        others = (e for e in quantities if e.role in ("moved", "instructions", "launch") and e is not self.hbm)
        self.other = next(others, None)
        """The first quantity besides the bytes of HBM traffic."""

    @property
    def common_factor(self) -> dict[str, float]:
        """The factors of operations, requests, results and work-items by role, if they are alike and not near 1."""
        # Work-items need not follow the size of a problem, so they can confirm it and not deny it.
        ratios = {
            role: ratio
            for role in self.leading
            if role in _OF_SIZE and not (_near(ratio := _ratio(self.leading[role])) and role == "launch")
        }
        low, high = min(ratios.values(), default=1.0), max(ratios.values(), default=1.0)
        return {} if len(ratios) < 2 or high / low > 1 + OTHER or _near(low) or _near(high) else ratios

    @property
    def far_apart(self) -> list[Quantity]:
        """Requests, work-items and, if counted, stores, if all are far more or all far fewer.

        Reuse saves loads; wider accesses by fewer work-items leave as many bytes, which is looked at before.
        """
        leading = [self.leading[role] for role in ("asked", "launch", "written") if role in self.leading]
        ratios = [_ratio(e) for e in leading]
        far = min(map(_apart, ratios)) > _FAR and len({ratio < 1 for ratio in ratios}) == 1
        return leading if far and "launch" in self.leading else []

    @property
    def figures(self) -> dict[str, Any]:
        """What the sentences about the outcomes contain."""
        flop, data, sizes = self.flop, self.asked or self.other, self.common_factor
        differ = (flop.ratio or 0.0) - 1 if flop else 0.0
        return {
            "differ": differ,
            "apart": abs(differ),
            "done": _times(flop.ratio if flop else None),
            "types": ", ".join(e.quantity for e in _moved_types(self)),
            "agree": _agree(data) if data else "",
            "asked": _times_of(data) if data else "",
            "traffic": _times(self.traffic),
            "sizes": ", ".join(self.leading[role].title for role in sizes),
            "factor": min(sizes.values(), default=1.0),
            "far_apart": ", ".join(map(_times_of, self.far_apart if self.asked else [])),
            "counted": ", ".join(e.quantity for e in self.quantities[:4]),
            "same": SAME,
        }


def _hidden_in_atomics(counted: _WorkEvidence) -> list[str]:
    """The atomics, if there are enough new ones for the operations that are gone: units of L2 compute them, which is
    not counted. A request is for up to 64 lanes."""
    gone = counted.flop.before - counted.flop.after if counted.flop else 0.0
    known = [e for e in counted.quantities if e.role == "atomics"]
    return [f"what {e.title} compute" for e in known if gone > 0 and _LANES * (e.after - e.before) >= gone]


def _by_operations(counted: _WorkEvidence, flop: Quantity, lost: list[str]) -> str:
    ratio, alike = flop.ratio or 0.0, counted.asked is not None and _near(_ratio(counted.asked))
    if abs(ratio - 1) <= SAME:
        return "other_types" if _moved_types(counted) else "same_operations"
    if _near(ratio):
        return "boundaries" if alike else "boundaries_or_algorithm"
    if counted.common_factor:
        return "operations_of_other_size"
    if lost and ratio <= 1:
        return "operations_lost"
    if counted.asked is None:
        return "more_without_requests" if ratio > 1 else "fewer_without_requests"
    if ratio <= 1:
        return "fewer_for_the_same_data" if alike else "fewer"
    if not alike:
        return "more_of_several_kinds"
    return "many_more" if ratio > _EXTRA else "recomputed"


def _moved_types(counted: _WorkEvidence) -> list[Quantity]:
    """The types of floating-point operations whose numbers changed."""
    total = max(counted.flop.before, counted.flop.after) if counted.flop else 0.0
    return [e for e in counted.quantities if e.role == "flop" and abs(e.after - e.before) > SAME * total]


def _by_requests(counted: _WorkEvidence, data: Quantity) -> str:
    ratio, moved = _ratio(data), counted.traffic
    if _near(ratio) and data.quantity not in _BYTES and moved is not None and moved >= _FAR:
        return "more_traffic"
    if _near(ratio):
        return "same_requests" if abs(ratio - 1) <= SAME else "similar_requests"
    if moved is not None and not _near(moved) and (moved < 1) == (ratio < 1) and not counted.reuse:
        return "other_data" if min(_apart(moved), _apart(ratio)) >= _FAR else "probably_other_data"
    if moved is not None and abs(moved - 1) <= SAME:
        return "same_traffic"
    if not counted.reuse and counted.far_apart:
        return "far_apart"
    return "fewer_requests" if ratio < 1 else "more_requests"


def _by_the_rest(counted: _WorkEvidence) -> str:
    if not counted.quantities:
        return "nothing_counted"
    if counted.common_factor:
        return "other_size"
    if counted.other and (counted.traffic or 0.0) >= _FAR and _near(counted.other.ratio or 0.0):
        return "more_scattered_traffic"
    alike = all(abs((e.ratio or 0.0) - 1) <= SAME for e in counted.quantities)
    return "all_alike" if alike and any(e.role == "instructions" for e in counted.quantities) else "undecided"


def _agree(data: Quantity) -> str:
    ratio = data.ratio or 0.0
    return f"{data.title} agree to {abs(ratio - 1):.1%}" if _near(ratio) else _times_of(data)


def _times_of(data: Quantity) -> str:
    return f"{_times(data.ratio)} {data.title}"


def _ratio(e: Quantity) -> float:
    return e.after / e.before


def _near(ratio: float) -> bool:
    return 1 - OTHER <= ratio <= 1 + OTHER


def _apart(ratio: float) -> float:
    """How many times more or fewer."""
    return max(ratio, 1 / ratio) if ratio else float("inf")


def _times(ratio: float | None) -> str:
    if ratio is None:
        return "newly many"
    if ratio == 0:
        return "no more"
    return f"{1 / ratio:.3g} times fewer" if ratio < 1 else f"{ratio:.3g} times as many"
