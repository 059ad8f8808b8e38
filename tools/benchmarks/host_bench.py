"""The host's ceilings one by one: which calls on how large buffers, and how long they are timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from . import host_calls as calls
from .host_caches import caches, cpus, free_bytes
from .host_calls import Call
from .host_kernels import Kernels
from .host_team import Team
from .host_timing import Effort, checked, timed
from .judge import Outcome

_POINTS = {
    "quick": ((1, 2), (8, 1), (8, 4), (8, 16), (8, 64)),
    "full": ((1, 1), (1, 2), (1, 4), (8, 1), (8, 2), (8, 4), (8, 8), (8, 16), (8, 32), (8, 64)),
}
"""Of the sweep: multiply-adds in a chain, and chains that each value goes through."""
_FREE_FLOP = 64
"""Operations a value beyond which a point of the sweep gets by with a part of the arrays: memory is not its limit."""
_EFFORTS = {
    "quick": Effort(total_s=5.0, ceiling_s=0.2, fewest=3, sample_s=0.02, most_bytes=1 << 30),
    "full": Effort(total_s=50.0, ceiling_s=1.5, fewest=7, sample_s=0.05, most_bytes=16 << 30),
}
_LEAST = 64 << 20
_BESIDE = 8
"""All arrays together are this many times as large as the last-level cache, where there is room."""
_OUTSIDE = 2
"""A stream over this many times a cache finds nothing of its last round there."""


class Bench:
    """``team`` measures ``count`` ceilings in one mode; the buffers of the level measured last stay."""

    def __init__(self, team: Team, kernels: Kernels, mode: str, count: int) -> None:
        self.team, self.kernels, self.mode, self.left = team, kernels, mode, count
        self.caches = caches(cpus())
        self.effort = _EFFORTS.get(mode)
        self._end = time.monotonic() + (self.effort.total_s if self.effort else 0.0)
        self._level, self._blocks = "", list[Any]()

    def measured(self, name: str) -> list[Outcome]:
        """The outcome of one ceiling, or those of a sweep."""
        _, group, kind = name.split(".")
        found = (
            [self._fma(name, kind)]
            if group == "fma"
            else self._sweep(name)
            if group == "sweep"
            else [self._bandwidth(name, group, kind)]
        )
        self.left -= 1
        return found

    def _bandwidth(self, name: str, level: str, kind: str) -> Outcome:
        size = self._bytes(level)
        mine = [calls.memory(self.kernels, kind, block) for block in self._filled(level, size)]
        outcome = self._one(Outcome(name, "GB/s", "ok"), mine, f"{_size(size)} in all")
        if self.effort and outcome.status == "ok" and level == "dram" and self.caches:
            last = self.caches[-1].total
            if size < _OUTSIDE * last:
                why = f"the arrays, {_size(size)}, are less than {_OUTSIDE} times the last-level cache of {_size(last)}"
                return replace(outcome, status="suspect", reason=f"{why}, which may have answered a part")
        return outcome

    def _bytes(self, level: str) -> int:
        """Bytes of all arrays of all threads: well inside the level, and well outside of the one below."""
        sizes = {c.name: c.per_thread for c in self.caches}
        if level != "dram":
            below = list(sizes.values())[: list(sizes).index(level)]
            return self.team.size * (round((below[-1] * sizes[level]) ** 0.5) if below else sizes[level] * 2 // 3)
        if self.effort is None:
            return self.team.size << 18
        wanted = _BESIDE * (self.caches[-1].total if self.caches else _LEAST)
        return max(min(wanted, free_bytes() // 2, self.effort.most_bytes), _LEAST)

    def _filled(self, level: str, size: int) -> list[Any]:
        """An array of float64 per thread, filled by the thread itself, so that its memory is the nearest."""
        if self._level != level:
            self._blocks = []
            blocks: list[Any] = [None] * self.team.size
            self.team.seconds(partial(calls.fill, blocks, size // self.team.size // 8))
            self._level, self._blocks = level, blocks
        return self._blocks

    def _fma(self, name: str, kind: str) -> Outcome:
        """The better of the compiled loop and the BLAS library's matrix product; a wrong result of either fails."""
        ranks, plain = range(self.team.size), Outcome(name, "GFLOP/s", "ok")
        side = 768 if self.effort else 64
        tried = [self._one(plain, [calls.gemm(kind, rank, side) for rank in ranks], f"NumPy {np.__version__}", 0.5)]
        if self.kernels.fma:
            tried.append(self._one(plain, [calls.fma(self.kernels, kind, rank) for rank in ranks], share=0.5))
        wrong = [outcome for outcome in tried if outcome.status == "failed"]
        return wrong[0] if wrong else max(tried, key=lambda o: o.value or 0.0)

    def _sweep(self, name: str) -> list[Outcome]:
        if not self.kernels.sweep:
            return [Outcome(name, "GFLOP/s", "not_supported", "it needs numba: pip install 'rooflens[host]'")]
        blocks, points = self._filled("dram", self._bytes("dram")), []
        known = _POINTS.get(self.mode, _POINTS["quick"])
        for chain, passes in known:
            flop = 2 * chain * passes
            part = min(1.0, _FREE_FLOP / flop)
            mine = [calls.sweep(self.kernels, chain, passes, block[: int(block.size * part)]) for block in blocks]
            point = Outcome(name, "GFLOP/s", "ok", intensity=flop / 16)
            points.append(self._one(point, mine, share=1 / len(known)))
        return points

    def _one(self, outcome: Outcome, mine: Sequence[Call], about: str = "", share: float = 1.0) -> Outcome:
        """Check the calls, and time them unless only their function is asked for."""
        words = [f"{self.kernels.name if mine[0].compiled else ''}", f"{self.team.size} threads", about]
        outcome = replace(outcome, kernel=mine[0].title, method=", ".join(w for w in words if w))
        if self.effort is None:
            return checked(self.team, mine, outcome)
        fair = max(0.0, self._end - time.monotonic()) / max(self.left, 1)
        work = float(sum(call.work for call in mine))
        return timed(
            self.team, mine, replace(outcome, work_per_launch=work), self.effort,
            share * min(self.effort.ceiling_s, fair),
        )  # fmt: skip


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB" if count >= 1 << 20 else f"{count / 1024:.0f} KiB"
