"""Formulas of work and traffic, read from work/*.toml: operations, levels of memory, ceilings, busy cycles."""

from __future__ import annotations

from functools import cache
from typing import Literal

from ..base.problems import NotFound
from . import files, targets
from .files import CatalogueModel
from .targets import Fact, as_on_target, holds

OperationKind = Literal["flop", "iop", "inst"]
LevelName = Literal["hbm", "l2", "gl1", "vl1d", "lds"]
LEVELS: tuple[LevelName, ...] = ("hbm", "l2", "gl1", "vl1d", "lds")
"""From memory inwards; a family has those that its work file states (gl1: the cache of a shader array on RDNA)."""


class _WorkEntry(CatalogueModel):
    name: str
    gpus: list[str] | None = None
    """Targets whose counters can count it; None for all of the family."""
    source: str = ""


class SimilarCeiling(_WorkEntry):
    """Another ceiling that bounds the same thing, times a factor."""

    factor: float


class CeilingEntry(_WorkEntry):
    """Something with a ceiling: ``ceiling`` lists SQL expressions over device facts; the first that can be
    evaluated counts."""

    unit: str
    ceiling: list[str]
    like: SimilarCeiling | None = None

    @property
    def key(self) -> str:
        """The name of its ceiling in the store."""
        return self.name


class Level(CeilingEntry):
    """One level of memory: bytes and transactions of a dispatch; ``least`` and ``most`` bound the bytes where the
    counters for them may be missing."""

    bytes: str = ""
    transactions: str = ""
    least: str = ""
    most: str = ""
    asked: str = ""
    """Bytes that would pass where every access were dense: what threads asked for, no whole sectors."""
    past: str = ""
    """Bytes that went to or from the compute units without passing this level, ``past_by`` whom."""
    past_by: str = ""
    unseen: str = ""
    """Amount of work that its counters do not see: a kernel that did any has no bytes there, ``unseen_why``."""
    unseen_why: str = ""
    note: str = ""
    cache: str = ""
    """The ceiling of a cache that answers part of the traffic, so that more than the level's own can be true."""

    def without_unseen(self, formula: str) -> str:
        """A formula over the level's counters that has no value where they do not see all."""
        return f"CASE WHEN ({self.unseen}) > 0 THEN NULL ELSE {formula} END" if self.unseen and formula else formula

    @property
    def key(self) -> str:
        """The name of its ceiling in the store."""
        return f"{self.name}.bw"


class WorkOperation(CeilingEntry):
    """One kind of work; its name is pipe.datatype."""

    kind: OperationKind
    count: str
    dual: float = 1.0
    """How many times its ceiling the rate can be: two instructions in one cycle, or a clock above the one quoted."""
    engine: str = ""
    """The unit of the pipe that does it, where units of one pipe run side by side."""
    optional: bool = False
    """Whether nothing is said of it where its counters were not collected."""
    note: str = ""
    """What to know of its counts, said where a kernel has any."""
    doubt: str = ""
    """What else its counts may be, said at a point where they weigh."""
    certain: str = ""
    """The quantity of ``extra`` that is not zero where there is no such doubt."""

    @property
    def pipe(self) -> str:
        """The hardware unit that does it: valu or matrix."""
        return self.name.split(".")[0]

    @property
    def datatype(self) -> str:
        """The part after the dot, such as f32."""
        return self.name.split(".")[-1]


class BusyUnit(_WorkEntry):
    """Cycles in which a unit was busy, and cycles that there were."""

    busy: str
    cycles: str


class VendorWords(CatalogueModel):
    """What a vendor calls things, for sentences."""

    wave: str = "wave"
    lookup: str = "lookup"
    piece: str = "line"
    """What one lookup of the vector L1 is for."""
    vector_memory: str = "vector memory instruction"
    units: str = "compute units"
    instructions: str = ""
    """What the instructions of the instruction roofline are."""


class WorkFormulas(CatalogueModel):
    """All formulas of a family of targets, as they stand on one of them."""

    family: str
    words: VendorWords = VendorWords()
    facts: dict[str, Fact] = {}
    level: list[Level]
    operation: list[WorkOperation] = []
    ceiling: list[CeilingEntry] = []
    busy: list[BusyUnit] = []
    marks: dict[str, float] = {}
    """Further marks of the memory wall: lookups per vector memory instruction."""
    extra: dict[str, str] = {}

    @property
    def bounds(self) -> list[CeilingEntry]:
        """Everything that has a ceiling."""
        return [*self.level, *self.operation, *self.ceiling]

    def operations(self, target: str, *kinds: OperationKind) -> list[WorkOperation]:
        """The operations of these kinds that a target's counters can count."""
        return [o for o in self.operation if o.kind in kinds and holds(o.gpus, target)]


@cache
def work_formulas(name: str, target: str) -> WorkFormulas:
    """The formulas of a family with what the target changes (``on.<target>``) applied.

    Raises NotFound for a family without rooflines.
    """
    if name not in files.paths("work"):
        raise NotFound(
            f"There are no roofline formulas for {target}",
            "its counters tell neither bytes nor floating-point operations",
            "compute_metrics works",
        )
    document = dict(files.documents("work")[name])
    for key in ("level", "operation", "busy"):
        entries = document.get(key, [])
        document[key] = [as_on_target(e, target) | {"gpus": e.get("gpus")} for e in entries]
    return files.validate_entry(WorkFormulas, document, f"The work file {name}.toml")


def formulas(target: str) -> dict[str, str]:
    """Every quantity that the rooflines of a target use: operations by name; per level the bytes by its name, and
    ``.transactions``, ``.least``, ``.most``, ``.asked``, ``.past``, ``.unseen``; ``.busy`` and ``.cycles`` of units;
    instruction counts."""
    stated = work_formulas(targets.gpu(target).family, target)
    quantities = {o.name: o.count for o in stated.operations(target, "flop", "iop", "inst")}
    for level in stated.level:
        parts = {"": level.without_unseen(level.bytes), ".transactions": level.without_unseen(level.transactions)}
        parts |= {
            ".least": level.least,
            ".most": level.most,
            ".asked": level.asked,
            ".past": level.past,
            ".unseen": level.unseen,
        }
        quantities |= {f"{level.name}{part}": formula for part, formula in parts.items() if formula}
    for unit in stated.busy:
        if holds(unit.gpus, target):
            quantities |= {f"{unit.name}.busy": unit.busy, f"{unit.name}.cycles": unit.cycles}
    return quantities | stated.extra
