"""What limits the achieved occupancy of a launch: its grid, its resources, or work-groups of uneven duration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..catalogue.thresholds import threshold
from ..catalogue.vocabulary import limiter_words
from . import Occupancy
from .launches import LaunchConfiguration
from .wording import sentence

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
    gpu, most = figure.gpu, figure.max_waves_per_cu
    resident = sentence("achieved", achieved=achieved) if achieved is not None else ""
    about = {"possible": possible, "resident": resident}
    units = (cus or 0) / (2 if figure.unit.startswith(_PAIRED) else 1)
    if units and launched.grid and launched.workgroup_size:
        groups = launched.grid / launched.workgroup_size / units
        offered = groups * figure.waves_per_workgroup
        if offered <= possible:
            pct = 100 * offered / most
            text = sentence("grid", gpu, groups=groups, offered=offered, pct=pct, **about)
            return Binding("grid", text, "no", offered)
    if achieved is None or achieved > possible * _MARGIN:
        return None
    if achieved < possible * _FAR_BELOW:
        return Binding("uneven", sentence("uneven", gpu, **about), "doubtful")
    text = sentence("resources", gpu, limiters=limiter_words(figure.limiters, gpu), **about)
    if possible < most:
        text += sentence("more_waves", gpu)
    return Binding("resources", text, "perhaps")
