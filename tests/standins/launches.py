"""The kernels that a profiled program pretends to launch, and what counters say of them."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_RECORDED_WAVES = 16_384
_RECORDED_NS = 20_480
LIMITS = {
    "SQ": 8, "TA": 2, "TD": 2, "TCP": 4, "TCC": 4, "TCA": 4, "CPC": 2, "CPF": 2, "SPI": 6, "GRBM": 2, "GDS": 4,
}  # fmt: skip
"""Counter registers per hardware block."""


@dataclass(frozen=True)
class Launch:
    """One launch: geometry as rocpd has it (work-items), registers, LDS of the code object and of this launch."""

    kernel: str
    mangled: str
    grid: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    static_lds: int = 0
    dynamic_lds: int = 0
    scratch: int = 0
    vgpr: int = 8
    agpr: int = 0
    sgpr: int = 16
    queue: int = 1
    stream: int = 1
    within: tuple[str, ...] = ()
    """Names of the ranges (ROCTX) around it, outermost first."""
    code_object: int = 1
    """Builds of one name in several code objects are kernels of their own."""
    counters: dict[str, float] = field(default_factory=dict)
    """Counters of this launch that do not follow from the recorded copy."""

    @property
    def items(self) -> int:
        return math.prod(self.grid)

    @property
    def waves(self) -> int:
        """Waves of 64, each work-group filled up on its own."""
        group = math.prod(self.workgroup)
        return self.items // group * math.ceil(group / 64)

    @property
    def lds(self) -> int:
        return self.static_lds + self.dynamic_lds

    @property
    def duration_ns(self) -> int:
        return max(1000, _RECORDED_NS * self.waves // _RECORDED_WAVES)

    @property
    def group_size(self) -> int:
        return math.prod(self.workgroup)


def launch(kernel: str, **changes: Any) -> Launch:
    """A launch of one of the known kernels, or of any other name with the geometry given."""
    known = KERNELS.get(kernel, {"kernel": kernel, "mangled": f"_Z{len(kernel)}{kernel}v.kd"})
    values = {"grid": (1_048_576, 1, 1), "workgroup": (256, 1, 1), **known, **changes}
    return Launch(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


KERNELS: dict[str, dict[str, Any]] = {
    "copy": {
        "kernel": "vecCopy(double*, double*, double*, int, int)",
        "mangled": "_Z7vecCopyPdS_S_ii.kd",
    },
    "fma": {
        "kernel": "void fma_chain<float, 16>(float*, float)",
        "mangled": "_Z9fma_chainIfLi16EEvPT_S0_.kd",
        "grid": (512, 128, 1),
        "workgroup": (16, 16, 1),
        "vgpr": 32,
        # 1,024 waves of 16 fused multiply-adds each.
        "counters": {"SQ_INSTS_VALU_FMA_F32": 16_384, "SQ_INSTS_VALU": 20_480},
    },
    "tile": {
        "kernel": "reverse_tile(float const*, float*)",
        "mangled": "_Z12reverse_tilePKfPf.kd",
        "grid": (8192, 1, 1),
        "workgroup": (512, 1, 1),
        "dynamic_lds": 2048,
        "queue": 2,
        "stream": 2,
        "counters": {
            "SQ_INSTS_LDS": 256,
            "SQ_LDS_IDX_ACTIVE": 512,
            "SQ_LDS_BANK_CONFLICT": 64,
            "SQ_INST_LEVEL_LDS": 4096,
            "SQ_INST_LEVEL_LDS_ACCUM": 32_768,
            "SQ_ACTIVE_INST_LDS": 256,
        },
    },
}
DEFAULT = [launch("copy"), launch("fma"), launch("copy"), launch("tile"), launch("copy"), launch("fma")]


@cache
def recorded(target: str) -> dict[str, float]:
    """Hardware events known on a target, with what real hardware counted in a copy of 8 MiB by 16,384 waves."""
    with (Path(__file__).parent / "counters.csv").open(encoding="utf-8") as file:
        return {row["counter"]: float(row[target]) for row in csv.DictReader(file) if row[target] != ""}


def event_of(counter: str) -> str:
    """The hardware event of a counter: ``X``, ``X_sum``, ``X_max`` and ``X[3]`` are one."""
    return re.sub(r"(_(sum|avr|max|min))?(\[\d+\])?$", "", counter)


def is_event(target: str, counter: str) -> bool:
    """Whether the target has this event, under its plain name or reduced over instances."""
    event = event_of(counter)
    if event in ("SQ_ACCUM_PREV", "SQ_ACCUM_PREV_HIRES"):
        return True
    return event in recorded(target) and not event.endswith("_ACCUM")


def block_of(event: str) -> str:
    """The hardware block of an event."""
    prefix = event.split("_", 1)[0]
    return "SQ" if prefix == "SQC" else prefix


def over_limit(slots: set[str]) -> dict[str, int]:
    """Blocks that these events need more registers of than they have -> number asked for."""
    asked: dict[str, int] = {}
    for slot in slots:
        block = block_of(slot)
        asked[block] = asked.get(block, 0) + 1
    return {block: n for block, n in asked.items() if n > LIMITS.get(block, 0)}


def count(target: str, event: str, launched: Launch) -> float:
    """What the event counts in a launch: the recorded value, scaled by the number of waves."""
    if event in launched.counters:
        return float(launched.counters[event])
    whole = recorded(target).get(event, 0.0) * launched.waves / _RECORDED_WAVES
    return float(round(whole))


def channels(target: str) -> int:
    """L2 channels of one compute die."""
    return 32 if target in ("gfx908", "gfx90a") else 16


def split(value: float, parts: int) -> list[float]:
    """The value as unequal whole shares of so many instances."""
    if parts <= 1:
        return [value]
    shares = [float(value * (i + 1) * 2 // (parts * (parts + 1))) for i in range(parts)]
    shares[-1] += value - sum(shares)
    return shares
