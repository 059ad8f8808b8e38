"""Threads of the host's micro-benchmarks: one per processor, each fixed to its own, started together and timed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import TracebackType


class Team:
    """One thread per processor of ``cpus``; what they call must release Python's lock to run side by side."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.size = len(cpus)
        self._open = ExitStack()
        self._members = [self._open.enter_context(ThreadPoolExecutor(1, f"cpu{c}", _fix, (c,))) for c in cpus]

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def seconds(self, work: Callable[[int], object]) -> float:
        """Call ``work(rank)`` in all threads at once: seconds from the first one's start to the last one's end."""
        barrier = threading.Barrier(self.size)

        def timed(rank: int) -> tuple[int, int]:
            barrier.wait()
            start = time.perf_counter_ns()
            work(rank)
            return start, time.perf_counter_ns()

        spans = [future.result() for future in [m.submit(timed, i) for i, m in enumerate(self._members)]]
        return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9

    def calls_per_s(self, work: Callable[[int], object], window_s: float) -> float:
        """Call ``work(rank)`` in all threads at once, again and again for so long: calls a second, over all threads.

        Each thread has its own rate, so that a processor that others use as well slows down itself alone.
        """
        barrier = threading.Barrier(self.size)

        def rate(rank: int) -> float:
            barrier.wait()
            start, count = time.perf_counter_ns(), 0
            while True:
                work(rank)
                count += 1
                took = time.perf_counter_ns() - start
                if took >= window_s * 1e9:
                    return count / took * 1e9

        return sum(future.result() for future in [m.submit(rate, i) for i, m in enumerate(self._members)])


def _fix(cpu: int) -> None:
    """Keep the calling thread on one processor, so that its memory stays near; where that is refused, it may move."""
    with suppress(OSError):
        os.sched_setaffinity(0, {cpu})
