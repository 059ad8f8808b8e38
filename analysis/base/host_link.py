"""The PCIe link of a device: its generation, width and bandwidth."""

from __future__ import annotations

from typing import Annotated

import pydantic

_GBS_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.5625}
"""GB/s per direction after encoding (8b/10b, 128b/130b, 242 of 256 bytes): PCI Express base specifications 1.0 to
6.0."""
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""The generation by the signalling rate of a lane in GT/s."""


class PcieLink(pydantic.BaseModel):
    """The fastest link that card and slot support; idle drivers reduce the rate."""

    generation: Annotated[int, pydantic.Field(ge=1, le=6)]
    width: Annotated[int, pydantic.Field(ge=1, le=32)]
    """The number of lanes in use."""

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def gbs(self) -> float:
        """The maximum GB/s per direction; because of packet headers, copies reach about 80 to 90 % of it."""
        return round(_GBS_PER_LANE[self.generation] * self.width, 1)

    def __str__(self) -> str:
        return f"PCIe {self.generation}.0 x{self.width}"


def link(generation: int | None, width: int | None) -> PcieLink | None:
    """The link, or None if generation or width is unknown or impossible."""
    if generation is None or width is None:
        return None
    try:
        return PcieLink(generation=generation, width=width)
    except pydantic.ValidationError:
        return None


def generation_of(gigatransfers: float) -> int | None:
    """The generation with a signalling rate in GT/s, or None if there is none."""
    return _GENERATIONS.get(gigatransfers)
