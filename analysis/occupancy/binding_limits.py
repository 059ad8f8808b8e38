"""What limits the achieved occupancy of a launch: its grid, its resources, or work-groups of uneven duration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..catalogue import targets
from ..catalogue.thresholds import threshold
from . import Occupancy
from .launches import LaunchConfiguration
from .wording import sentence


@dataclass(frozen=True)
class OccupancyWords:
    """The vendor's terms for a wave, a compute unit, a work-group, a work-item, and each limiter."""

    wave: str
    unit: str
    group: str
    item: str
    limiters: Mapping[str, str]

    def limiter_names(self, limiters: Iterable[str]) -> str:
        """The limiters in the vendor's terms."""
        return ", ".join(self.limiters.get(name, name) for name in limiters)


_AMD = {
    "wave_slots": "wave slots",
    "workgroup_slots": "work-group slots",
    "vgprs": "vector registers",
    "sgprs": "scalar registers",
    "lds": "LDS",
    "grid": "grid",
}
_NVIDIA = {
    "wave_slots": "warp slots",
    "workgroup_slots": "block slots",
    "vgprs": "registers",
    "lds": "shared memory",
}
_WORDS = {
    "amd": OccupancyWords("wave", "CU", "work-group", "work-item", _AMD),
    "nvidia": OccupancyWords("warp", "SM", "block", "thread", _AMD | _NVIDIA),
}


def words_of(gpu: str) -> OccupancyWords:
    """The terms of a target's vendor."""
    return _WORDS.get(targets.gpu(gpu).vendor, _WORDS["amd"])


_FAR_BELOW = threshold("occupancy.far_below")
_MARGIN = threshold("occupancy.margin")
_PAIRED = "work-group processor"
"""The name of the unit that consists of two compute units."""


@dataclass(frozen=True)
class Binding:
    """``by``: grid (too few work-groups for the available slots), uneven (far fewer waves than grid and resources
    allow: work-groups of different duration, a short last round, launch cost) or resources (about what they allow).
    ``helps`` says whether changes of registers, LDS or work-group size can give more waves."""

    by: Literal["grid", "uneven", "resources"]
    text: str
    helps: Literal["no", "doubtful", "perhaps"]
    offered: float | None = None
    """The waves per compute unit in the grid, if the grid is the limit."""


def binding(figure: Occupancy, launched: LaunchConfiguration, cus: float | None) -> Binding | None:
    """What limits a launch on a device with ``cus`` compute units (SMs). None if neither its grid nor its achieved
    occupancy is known, if not even one work-group fits, or if it achieved more than is possible."""
    possible, achieved = figure.waves_per_cu, launched.achieved_waves_per_cu
    if not possible:
        return None
    words, most = words_of(figure.gpu), figure.max_waves_per_cu
    resident = sentence("achieved", achieved=achieved) if achieved is not None else ""
    about = {"words": words, "possible": possible, "resident": resident}
    units = (cus or 0) / (2 if figure.unit.startswith(_PAIRED) else 1)
    if units and launched.grid and launched.workgroup_size:
        groups = launched.grid / launched.workgroup_size / units
        offered = groups * figure.waves_per_workgroup
        if offered <= possible:
            pct = 100 * offered / most
            return Binding("grid", sentence("grid", groups=groups, offered=offered, pct=pct, **about), "no", offered)
    if achieved is None or achieved > possible * _MARGIN:
        return None
    if achieved < possible * _FAR_BELOW:
        return Binding("uneven", sentence("uneven", **about), "doubtful")
    text = sentence("resources", limiters=words.limiter_names(figure.limiters), **about)
    if possible < most:
        text += sentence("more_waves", words=words)
    return Binding("resources", text, "perhaps")
