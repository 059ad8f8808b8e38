"""Where labels go: numbers beside their points, positions in a column; none covers another."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .style import NORMAL, width_of

Box = tuple[float, float, float, float]
_NEAR = 7.0
_TALL = 12.0
_TURNS = (90, 45, 135, 0, 180, -45, -135, -90)


def clusters(marks: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float, list[int]]]:
    """Marks (x, y, radius) within a few pixels of each other as one: its place, radius and members."""
    left = list(range(len(marks)))
    groups = []
    while left:
        x, y, _ = marks[left[0]]
        members = [i for i in left if math.hypot(marks[i][0] - x, marks[i][1] - y) <= _NEAR]
        left = [i for i in left if i not in members]
        groups.append((x, y, max(marks[i][2] for i in members), members))
    return groups


def around(
    labels: Sequence[tuple[float, float, float, str]],
    marks: Sequence[tuple[float, float, float]],
    lines: Sequence[float],
    inside: Box,
) -> list[tuple[float, float, bool]]:
    """A centre for each label (x, y, radius of its mark, words), and whether it needs a line to its mark.

    Each takes the nearest place around its mark that is free of marks, numbers and level lines, in order; where none
    is, the one that covers least.
    """
    obstacles: list[Box] = [(x - r, y - r, x + r, y + r) for x, y, r in marks]
    obstacles += [(inside[0], y - 1, inside[2], y + 1) for y in lines]
    positions = []
    for x, y, radius, words in labels:
        wide = width_of(words, NORMAL, bold=True) + 2
        best: tuple[float, float, float, bool] | None = None
        for step in range(12):
            for turn in _TURNS:
                reach = radius + 2 + 6 * step
                cx = x + math.cos(math.radians(turn)) * (reach + wide / 2)
                cy = y - math.sin(math.radians(turn)) * (reach + _TALL / 2)
                box = (cx - wide / 2, cy - _TALL / 2, cx + wide / 2, cy + _TALL / 2)
                if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
                    continue
                covered = sum(_overlap(box, other) for other in obstacles)
                if best is None or covered < best[0]:
                    best = (covered, cx, cy, step > 1)
            if best is not None and best[0] == 0:
                break
        covered, cx, cy, far = best or (0.0, x, y - radius - _TALL, False)
        obstacles.append((cx - wide / 2, cy - _TALL / 2, cx + wide / 2, cy + _TALL / 2))
        positions.append((cx, cy, far))
    return positions


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least ``gap`` apart between ``low`` and ``high``, in all as near to ``wanted`` as can be."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []
    for rank, i in enumerate(order):
        mean, n = wanted[i] - rank * gap, 1
        while pools and pools[-1][0] >= mean:
            before, m = pools.pop()
            mean, n = (before * m + mean * n) / (m + n), m + n
        pools.append((mean, n))
    flat = [mean for mean, n in pools for _ in range(n)]
    top = max(low, high - (len(wanted) - 1) * gap)
    offsets = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        offsets[i] = min(max(flat[rank], low), top) + rank * gap
    return offsets
