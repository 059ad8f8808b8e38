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
"""From memory inwards; a family has the levels in its work file (gl1 is the cache of a shader array on RDNA)."""


class _WorkEntry(CatalogueModel):
    name: str
    source: str = ""


class SimilarCeiling(_WorkEntry):
    """Another ceiling from which this one follows, multiplied by a factor."""

    factor: float


class CeilingEntry(_WorkEntry):
    """Something with a ceiling: ``ceiling`` lists SQL expressions over device facts, of which the first that can be
    evaluated is used."""

    unit: str
    ceiling: list[str]
    like: SimilarCeiling | None = None

    @property
    def key(self) -> str:
        """The name of its ceiling in the store."""
        return self.name


class Level(CeilingEntry):
    """One memory level: bytes and transactions of a dispatch; ``least`` and ``most`` bound the bytes if their counters
    are missing."""

    bytes: str = ""
    transactions: str = ""
    least: str = ""
    most: str = ""
    asked: str = ""
    """The bytes that would pass if every access were dense: what threads requested, without whole sectors."""
    past: str = ""
    """The bytes to or from the compute units that bypass this level, through ``past_by``."""
    past_by: str = ""
    unseen: str = ""
    """The amount of work that its counters do not see: a kernel with any has no bytes here, because of
    ``unseen_why``."""
    unseen_why: str = ""
    note: str = ""
    cache: str = ""
    """The ceiling of a cache that serves part of the traffic, so that the level's own ceiling can be exceeded."""

    def without_unseen(self, formula: str) -> str:
        """A formula over the level's counters that is NULL if they do not see all work."""
        return f"CASE WHEN ({self.unseen}) > 0 THEN NULL ELSE {formula} END" if self.unseen and formula else formula

    @property
    def key(self) -> str:
        """The name of its ceiling in the store."""
        return f"{self.name}.bw"


class WorkOperation(CeilingEntry):
    """One type of work; its name is pipe.datatype."""

    kind: OperationKind
    count: str
    counted: bool = True
    """Whether the target has its counters; others still have its ceiling."""
    dual: float = 1.0
    """By which factor the rate can exceed its ceiling: dual issue, or a clock above the nominal one."""
    engine: str = ""
    """The unit within the pipe that executes it, if units of one pipe run in parallel."""
    optional: bool = False
    """Whether it is silently omitted if its counters were not collected."""
    note: str = ""
    """A note on its counts, shown if a kernel has any."""
    doubt: str = ""
    """What its counts may be instead, shown at points where they matter."""
    certain: str = ""
    """The quantity of ``extra`` that is not zero if there is no such doubt."""

    @property
    def pipe(self) -> str:
        """The hardware unit that executes it: valu or matrix."""
        return self.name.split(".")[0]

    @property
    def datatype(self) -> str:
        """The part after the dot, such as f32."""
        return self.name.split(".")[-1]


class BusyUnit(_WorkEntry):
    """The cycles in which a unit was busy, and all cycles."""

    busy: str
    cycles: str


class VendorWords(CatalogueModel):
    """A vendor's terms, for use in sentences."""

    wave: str = "wave"
    lookup: str = "lookup"
    piece: str = "line"
    """What one lookup of the vector L1 accesses."""
    vector_memory: str = "vector memory instruction"
    units: str = "compute units"
    instructions: str = ""
    """Which instructions the instruction roofline counts."""


class WorkFormulas(CatalogueModel):
    """All formulas of a family of targets, as defined on one of them."""

    family: str
    words: VendorWords = VendorWords()
    facts: dict[str, Fact] = {}
    level: list[Level]
    operation: list[WorkOperation] = []
    ceiling: list[CeilingEntry] = []
    busy: list[BusyUnit] = []
    marks: dict[str, float] = {}
    """Additional marks of the memory wall: lookups per vector memory instruction."""
    extra: dict[str, str] = {}

    @property
    def bounds(self) -> list[CeilingEntry]:
        """All entries with a ceiling."""
        return [*self.level, *self.operation, *self.ceiling]

    def operations(self, *kinds: OperationKind) -> list[WorkOperation]:
        """The operations of these kinds that the target's counters can count."""
        return [o for o in self.operation if o.kind in kinds and o.counted]


@cache
def work_formulas(target: str) -> WorkFormulas:
    """The formulas of a target's family with the changes for the target (``on.<target>``) applied.

    Raises NotFound for a family without rooflines.
    """
    if (name := targets.gpu(target).family) not in files.paths("work"):
        raise NotFound(
            f"There are no roofline formulas for {target}",
            "its counters count neither bytes nor floating-point operations",
            "compute_metrics works",
        )
    document = dict(files.documents("work")[name])
    document["level"] = [as_on_target(level, target) for level in document["level"]]
    document["operation"] = [
        as_on_target(operation, target) | {"counted": holds(operation.get("gpus"), target)}
        for operation in document.get("operation", [])
    ]
    document["busy"] = [as_on_target(u, target) for u in document.get("busy", []) if holds(u.get("gpus"), target)]
    return files.validate_entry(WorkFormulas, document, f"The work file {name}.toml")


def formulas(target: str) -> dict[str, str]:
    """Every quantity that the rooflines of a target use: operations by name; per level the bytes by its name, and
    ``.transactions``, ``.least``, ``.most``, ``.asked``, ``.past``, ``.unseen``; ``.busy`` and ``.cycles`` of units;
    instruction counts."""
    stated = work_formulas(target)
    quantities = {o.name: o.count for o in stated.operations("flop", "iop", "inst")}
    for level in stated.level:
        parts = {
            "": level.without_unseen(level.bytes),
            ".transactions": level.without_unseen(level.transactions),
            ".least": level.least,
            ".most": level.most,
            ".asked": level.asked,
            ".past": level.past,
            ".unseen": level.unseen,
        }
        quantities |= {f"{level.name}{part}": formula for part, formula in parts.items() if formula}
    for unit in stated.busy:
        quantities |= {f"{unit.name}.busy": unit.busy, f"{unit.name}.cycles": unit.cycles}
    return quantities | stated.extra
