"""What a picture of a roofline shows, and where ceilings and points lie on its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEFT, TOP, AXES_WIDTH, AXES_HEIGHT = 74, 84, 500, 400
"""The axes in pixels from the page's upper left corner."""


@dataclass(frozen=True)
class Roof:
    """One ceiling; ``origin`` says in a few words how it is known."""

    name: str
    value: float
    unit: str
    origin: str


@dataclass(frozen=True)
class Dot:
    """One kernel at one level; without intensity or performance it has no place, but perhaps a bandwidth."""

    kernel: int
    level: str
    datatype: str
    intensity: float | None
    performance: float | None
    bandwidth: float | None
    doubtful: bool = False

    @property
    def is_drawable(self) -> bool:
        """Whether it has a place on two logarithmic axes."""
        return all(v is not None and math.isfinite(v) and v > 0 for v in (self.intensity, self.performance))


@dataclass(frozen=True)
class KernelListLine:
    """A line of the list of kernels below the axes."""

    number: int
    name: str
    share_pct: float | None
    verdict: str


@dataclass(frozen=True)
class RooflinePicture:
    """All that the picture shows; ``unit`` is that of the compute ceilings and of performance."""

    title: str
    device: str
    unit: str
    intensity_unit: str
    roofs: Sequence[Roof]
    dots: Sequence[Dot]
    kernels: Sequence[KernelListLine]
    statements: Sequence[str]
    sweeps: Sequence[Sequence[tuple[float, float]]] = ()
    """Measured roofs: the rates reached at rising intensities."""


@dataclass(frozen=True)
class Frame:
    """The axes with limits fixed: where a value lies in pixels from the page's upper left corner."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return LEFT + AXES_WIDTH * math.log(value / self.x0) / math.log(self.x1 / self.x0)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return TOP + AXES_HEIGHT * (1 - math.log(value / self.y0) / math.log(self.y1 / self.y0))


@dataclass(frozen=True)
class Sheet:
    """What is drawn, in the order in which ceilings are drawn, and the frame that all of it fits into."""

    shown: RooflinePicture
    bandwidths: list[Roof]
    peaks: list[Roof]
    frame: Frame

    @classmethod
    def of(cls, shown: RooflinePicture) -> Sheet:
        """The ceilings in falling order."""
        falling = sorted(shown.roofs, key=lambda roof: -roof.value)
        bandwidths = [roof for roof in falling if roof.unit == "GB/s"]
        peaks = [roof for roof in falling if roof.unit != "GB/s"]
        return cls(shown, bandwidths, peaks, _frame(shown, bandwidths, peaks))

    @property
    def origins(self) -> list[str]:
        """How ceilings are known, each once: the footnotes."""
        return list(dict.fromkeys(roof.origin for roof in self.shown.roofs))

    def footnote(self, origin: str) -> str:
        """The mark behind a ceiling, where ceilings are known in several ways."""
        return f" [{mark(self.origins.index(origin))}]" if len(self.origins) > 1 else ""

    def slope(self, bandwidth: float, most: float | None = None) -> tuple[list[float], list[float]]:
        """Both ends of the line of a bandwidth within the frame, up to the rate ``most``."""
        start = max(self.frame.x0, self.frame.y0 / bandwidth)
        end = min(self.frame.x1, self.frame.x1 if most is None else most / bandwidth, self.frame.y1 / bandwidth)
        return [start, end], [bandwidth * start, bandwidth * end]

    def roof(self, bandwidth: float) -> tuple[list[float], list[float]]:
        """The line of a bandwidth as a ceiling: no higher than the highest peak."""
        return self.slope(bandwidth, self.peaks[0].value if self.peaks else None)

    def level(self, height: float) -> tuple[list[float], list[float]]:
        """Both ends of a compute ceiling, which begins where the fastest memory reaches it."""
        start = max(self.frame.x0, height / self.bandwidths[0].value) if self.bandwidths else self.frame.x0
        return [start, self.frame.x1], [height, height]


def _frame(shown: RooflinePicture, bandwidths: list[Roof], peaks: list[Roof]) -> Frame:
    """Axes wide enough for all points and for the ridges of all ceilings."""
    dots = [(d.intensity, d.performance) for d in shown.dots if d.is_drawable]
    xs = [x for x, _ in dots if x is not None]
    ys = [y for _, y in dots if y is not None]
    xs += [x for line in shown.sweeps for x, _ in line]
    ys += [y for line in shown.sweeps for _, y in line]
    xs += [p.value / b.value for p in (peaks[:1] + peaks[-1:]) for b in (bandwidths[:1] + bandwidths[-1:])]
    x0, x1 = _pad_limits(min(xs, default=0.1) / 5, max(xs, default=100.0) * 3)
    ys += [p.value for p in peaks] or [b.value * x1 / 10 for b in bandwidths]
    low = min([*(y / 2 for y in ys), *(b.value * x0 * 2 for b in bandwidths)], default=1.0)
    y0, y1 = _pad_limits(low, max(ys, default=1000.0) * 2.5)
    return Frame(x0, x1, y0, y1)


def _pad_limits(low: float, high: float) -> tuple[float, float]:
    """Limits with at least two decades between them."""
    missing = max(0.0, 2.0 - math.log10(high / low)) / 2
    return low * 10**-missing, high * 10**missing


def mark(index: int) -> str:
    """The letter of a footnote."""
    return chr(ord("a") + index)
