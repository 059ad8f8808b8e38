"""The words in which vendors speak of waves, compute units and what limits them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from ..catalogue import targets


@dataclass(frozen=True)
class OccupancyWords:
    """What a GPU's vendor calls a wave, a compute unit, a work-group, a work-item, and each limiter."""

    wave: str
    unit: str
    group: str
    item: str
    limiters: MappingProxyType[str, str]

    def limiter_names(self, limiters: Iterable[str]) -> str:
        """Limiters in the vendor's words."""
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
    "amd": OccupancyWords("wave", "CU", "work-group", "work-item", MappingProxyType(_AMD)),
    "nvidia": OccupancyWords("warp", "SM", "block", "thread", MappingProxyType(_AMD | _NVIDIA)),
}


def words_of(gpu: str) -> OccupancyWords:
    """The words of a target's vendor."""
    return _WORDS.get(targets.gpu(gpu).vendor, _WORDS["amd"])
