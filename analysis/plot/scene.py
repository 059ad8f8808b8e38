"""What a picture of a roofline is made of, and where values lie on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEFT, TOP, AXES_WIDTH, AXES_HEIGHT = 74, 84, 500, 400


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
    def drawn(self) -> bool:
        """Whether it has a place on two logarithmic axes."""
        return all(v is not None and math.isfinite(v) and v > 0 for v in (self.intensity, self.performance))


@dataclass(frozen=True)
class Kernel:
    """A line of the list of kernels below the axes."""

    number: int
    name: str
    share_pct: float | None
    verdict: str


@dataclass(frozen=True)
class Scene:
    """All that the picture shows; ``unit`` is that of the compute ceilings and of performance."""

    title: str
    device: str
    unit: str
    intensity_unit: str
    roofs: Sequence[Roof]
    dots: Sequence[Dot]
    kernels: Sequence[Kernel]
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


def limits(scene: Scene, bandwidths: list[Roof], peaks: list[Roof]) -> Frame:
    """Axes wide enough for all points and for the ridges of all ceilings."""
    dots = [(d.intensity, d.performance) for d in scene.dots if d.drawn]
    xs = [x for x, _ in dots if x is not None]
    ys = [y for _, y in dots if y is not None]
    xs += [x for line in scene.sweeps for x, _ in line]
    ys += [y for line in scene.sweeps for _, y in line]
    xs += [p.value / b.value for p in (peaks[:1] + peaks[-1:]) for b in (bandwidths[:1] + bandwidths[-1:])]
    x0, x1 = _padded(min(xs, default=0.1) / 5, max(xs, default=100.0) * 3)
    ys += [p.value for p in peaks] or [b.value * x1 / 10 for b in bandwidths]
    low = min([*(y / 2 for y in ys), *(b.value * x0 * 2 for b in bandwidths)], default=1.0)
    y0, y1 = _padded(low, max(ys, default=1000.0) * 2.5)
    return Frame(x0, x1, y0, y1)


def _padded(low: float, high: float) -> tuple[float, float]:
    """Limits with at least two decades between them."""
    missing = max(0.0, 2.0 - math.log10(high / low)) / 2
    return low * 10**-missing, high * 10**missing
