"""The work of two versions of a kernel, by the quantities that both profiles contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ..catalogue import files, targets, work_formulas
from ..catalogue import metrics as catalog
from ..catalogue.formula import first_usable
from ..catalogue.thresholds import threshold
from ..catalogue.work_formulas import WorkFormulas, WorkOperation
from ..engine.compile import FormulaScope
from ..engine.work_sums import KernelWork, WorkSelection, WorkSums, collect
from ..workload import Selection, Workload
from .time_ratio import KernelTotals

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
    data = files.load(Path(__file__).with_name("quantities.toml"))
    for role, entries in data.get(targets.gpu(target).family, {}).items():
        for name, formulas in entries.items():
            if role == "busy":
                stated |= {f"{name}.of": [formulas[0]], f"{name}.over": [formulas[1]]}
            else:
                roles[name], stated[name] = role, formulas
    return CountedQuantities(roles, stated)


def family(target: str | None) -> WorkFormulas | None:
    """The formulas for work and traffic of a target; None if it has none."""
    if target not in catalog.targets_with_metrics() or targets.gpu(target).vendor == "cpu":
        return None
    return work_formulas.work_formulas(targets.gpu(target).family, target)


def operations(target: str) -> list[WorkOperation]:
    """The floating-point and integer operations that a target counts, by type."""
    formulas = family(target)
    return formulas.operations(target, "flop", "iop") if formulas else []


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


Graded = tuple[Answer, str]


def judge(target: str, before: Side, after: Side, checked: bool | None = None) -> SameWork:
    """Compare the work of both sides in a round; ``checked`` is the result of the program's own check.

    Equal floating-point operations mean the same work, because tiling, caching and launch shapes do not change them.
    If they differ, the bytes that threads request before any cache decide: more operations for the same data are
    partial sums or recomputed values, and fewer of both in proportion mean a smaller problem. Requests alone also
    decrease if values are reused from registers or LDS, so a decrease means different work only if the traffic to HBM
    decreases too. A check that passed leaves one doubt, another problem size; one that failed leaves none.
    """
    quantities = evidence(target, before, after)
    by_name = {e.quantity: e for e in quantities}
    flop, asked = by_name.get("flop"), [e for e in quantities if e.role == "asked" and e.before and e.after]
    reuse = any(e.role == "reuse" and e.after > e.before * (1 + SAME) for e in quantities)
    lost = not_counted(target, before, after) + _hidden_in_atomics(quantities, flop)
    if checked is False:
        graded: Graded = "no", "the program's own check of its result failed"
    elif flop:
        graded = _by_operations(flop, quantities, asked, lost)
    elif asked:
        graded = _by_requests(asked[0], by_name.get("hbm_bytes"), reuse=reuse)
        if graded[0] == "unknown" and not reuse and (less := _all_apart(asked[0], quantities)):
            graded = "probably_not", less
    else:
        graded = _by_the_rest(quantities)
    if checked and graded[0] != "yes":
        graded = _after_passed_check(graded, quantities)
    return SameWork(*graded, quantities)


def _hidden_in_atomics(quantities: list[Quantity], flop: Quantity | None) -> list[str]:
    """The atomics, if there are enough new ones for the operations that are gone: units of L2 compute them, which is
    not counted. A request is for up to 64 lanes."""
    gone = flop.before - flop.after if flop else 0.0
    known = [e for e in quantities if e.role == "atomics"]
    return [f"what {e.title} compute" for e in known if gone > 0 and _LANES * (e.after - e.before) >= gone]


def _after_passed_check(graded: Graded, quantities: list[Quantity]) -> Graded:
    """The remaining doubt if the program's own check passed."""
    if size := _another_size(quantities):
        return "probably_not", f"the program's own check passed, but {size}"
    if graded[0] in DIFFERENT:
        return "probably", f"the program's own check passed, although the counters suggest other work ({graded[1]})"
    return ("yes" if graded[0] == "probably" else "probably"), f"the program's own check passed; {graded[1]}"


def _by_operations(flop: Quantity, quantities: list[Quantity], asked: list[Quantity], lost: list[str]) -> Graded:
    data = asked[0] if asked else None
    ratio = flop.ratio or 0.0
    if abs(ratio - 1) <= SAME:
        return _by_type(flop, [e for e in quantities if e.role == "flop"])
    if _near(ratio):
        differ = f"floating-point operations differ by {ratio - 1:+.1%}"
        if data is None or not _near(_ratio(data)):
            return "unknown", f"{differ}: boundaries, or another algorithm"
        return "probably", f"{differ} and {_agree(data)}: boundaries, or partial results"
    done = f"{_times(flop.ratio)} floating-point operations"
    if size := _another_size(quantities):
        return "no", f"{done}: {size}"
    if lost and ratio <= 1:
        return "unknown", f"{_times(flop.ratio)} of those counted, but not counted: {', '.join(lost)}"
    less = "less was done, or it was computed in another way; check the results"
    if data is None:
        if ratio > 1:
            return "probably_not", f"{done}, and memory requests were not counted: give checked, or collect them"
        return "no", f"{done}: {less}"
    if ratio > 1:
        if not _near(_ratio(data)):
            return "unknown", f"{done} and {_agree(data)}: more work, but not of one kind"
        if ratio > _EXTRA:
            return "probably_not", f"{done} for the same data ({_agree(data)}): give checked if the results agree"
        return "probably", f"{done}, but {_agree(data)}: partial results, or recomputed values"
    return ("probably_not" if _near(_ratio(data)) else "no"), f"{done} and {_agree(data)}: {less}"


def _by_type(flop: Quantity, kinds: list[Quantity]) -> Graded:
    total = max(flop.before, flop.after)
    moved = [e.quantity for e in kinds if abs(e.after - e.before) > SAME * total]
    if moved:
        return "unknown", f"as many operations of other types ({', '.join(moved)}): check the accuracy of the results"
    return "yes", f"floating-point operations agree to {abs(_ratio(flop) - 1):.1%}"


def _by_requests(data: Quantity, hbm: Quantity | None, *, reuse: bool) -> Graded:
    ratio, moved = _ratio(data), hbm.ratio if hbm else None
    if _near(ratio) and data.quantity not in _BYTES and moved is not None and moved >= _FAR:
        return "probably_not", f"{_agree(data)}, but {_times(moved)} bytes of HBM traffic: more data, or scattered"
    if abs(ratio - 1) <= SAME:
        return "yes", f"{_agree(data)} and no floating-point operations were counted"
    if _near(ratio):
        return "probably", f"{_agree(data)}, and no floating-point operations were counted"
    asked = f"{_times(ratio)} {data.title}"
    if moved is not None and not _near(moved) and (moved < 1) == (ratio < 1) and not reuse:
        far = min(_apart(moved), _apart(ratio)) >= _FAR
        return ("no" if far else "probably_not"), f"{asked} and {_times(moved)} bytes of HBM traffic: different data"
    if moved is not None and abs(moved - 1) <= SAME:
        return "probably", f"{asked} for as many bytes of HBM traffic: accesses are wider, or values are reused"
    why = "values may be served again from registers or LDS" if ratio < 1 else "accesses may be narrower or repeated"
    return "unknown", f"{asked}, and no floating-point operations were counted to decide: {why}"


def _all_apart(data: Quantity, quantities: list[Quantity]) -> str:
    """Where requests, work-items and, if counted, stores are far more or far fewer: in words, else nothing.

    Reuse saves loads; wider accesses by fewer work-items leave as many bytes, which is looked at before.
    """
    leading = [data]
    for role in ("launch", "written"):
        leading += [e for e in quantities if e.role == role and e.before and e.after][:1]
    ratios = [_ratio(e) for e in leading]
    far = min(map(_apart, ratios)) > _FAR and len({ratio < 1 for ratio in ratios}) == 1
    if not far or all(e.role != "launch" for e in leading):
        return ""
    return f"{', '.join(f'{_times(_ratio(e))} {e.title}' for e in leading)}: less or more was done"


def _by_the_rest(quantities: list[Quantity]) -> Graded:
    if not quantities:
        return "unknown", "no counter of work is in both profiles"
    if size := _another_size([e for e in quantities if e.role in ("moved", "launch", "instructions", "written")]):
        return "probably_not", size
    if more := _more_bytes(quantities):
        return "probably_not", more
    counted = ", ".join(e.quantity for e in quantities[:4])
    alike = all(abs((e.ratio or 0.0) - 1) <= SAME for e in quantities)
    if alike and any(e.role == "instructions" for e in quantities):
        return "yes", f"all that was counted agrees to {SAME:.0%}: {counted}"
    return "unknown", f"neither operations nor requests were counted in both, only {counted}"


def _more_bytes(quantities: list[Quantity]) -> str:
    """Where as many requests, instructions or work-items move far more bytes: in words, else nothing."""
    moved = next((e for e in quantities if e.quantity == LEVEL_TITLES["hbm"] and (e.ratio or 0.0) >= _FAR), None)
    same = next((e for e in quantities if e.role in ("moved", "instructions", "launch") and e is not moved), None)
    if moved is None or same is None or not _near(same.ratio or 0.0):
        return ""
    return f"{_agree(same)}, but {_times(moved.ratio)} bytes of HBM traffic: more data, or scattered accesses"


def _another_size(quantities: list[Quantity]) -> str:
    """Where operations, requests, results and work-items all changed by one factor: in words, else nothing."""
    leading: dict[str, Quantity] = {}
    for e in quantities:
        if e.role in ("operations", "asked", "written", "moved", "launch", "instructions") and e.before and e.after:
            leading.setdefault(e.role, e)
    # Work-items need not follow the size of a problem, so they can confirm it and not deny it.
    ratios = {role: _ratio(e) for role, e in leading.items() if role != "launch" or not _near(_ratio(e))}
    low, high = min(ratios.values(), default=1.0), max(ratios.values(), default=1.0)
    if len(ratios) < 2 or high / low > 1 + OTHER or _near(low) or _near(high):
        return ""
    return f"all of {', '.join(leading[role].title for role in ratios)} changed x {low:.3g}: another amount of data"


def _agree(data: Quantity) -> str:
    ratio = _ratio(data)
    if _near(ratio):
        return f"{data.title} agree to {abs(ratio - 1):.1%}"
    return f"{_times(ratio)} {data.title}"


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
