"""The PCIe link of a device: its generation and width, and what it can carry."""

from __future__ import annotations

from typing import Annotated

import pydantic

_GBS_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.5625}
"""Each way, after encoding (8b/10b, 128b/130b, 242 of 256 bytes): PCI Express base specifications 1.0 to 6.0."""
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By the signalling rate of a lane in GT/s."""


class PcieLink(pydantic.BaseModel):
    """What card and slot can agree on at most; while nothing runs, drivers let the rate fall."""

    generation: Annotated[int, pydantic.Field(ge=1, le=6)]
    width: Annotated[int, pydantic.Field(ge=1, le=32)]
    """Lanes in use."""

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def gbs(self) -> float:
        """GB/s each way that no copy can exceed; headers leave some 80 to 90 % of it."""
        return round(_GBS_PER_LANE[self.generation] * self.width, 1)

    def __str__(self) -> str:
        return f"PCIe {self.generation}.0 x{self.width}"


def link(generation: int | None, width: int | None) -> PcieLink | None:
    """The link, or None where one of both is not known or cannot be."""
    if generation is None or width is None:
        return None
    try:
        return PcieLink(generation=generation, width=width)
    except pydantic.ValidationError:
        return None


def generation_of(gigatransfers: float) -> int | None:
    """The generation with a signalling rate in GT/s; None for a rate that none has."""
    return _GENERATIONS.get(gigatransfers)
