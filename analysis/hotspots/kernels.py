"""The kernels of a workload that have samples, and the selection of some of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..base.database import sql_literal
from ..base.kernel_names import select_names
from ..base.problems import BadInput, NotFound, near
from ..workload import Workload

_SMALL = 20_000
_RANK = re.compile(r"\s*#(\d{1,9})(?:\.(\d{1,9}))?\s*", re.ASCII)


@dataclass(frozen=True)
class HotKernel:
    """A kernel with samples or counts per instruction, or one of its launch configurations."""

    kernel: str
    number: str
    """The number that selects it, after a #: its rank by time, or by samples if the profile has no launches."""
    samples: int
    instructions: int
    share_pct: float | None
    """Its percentage of the time of all kernels; None without times."""
    launches: int | None
    """Its number of launches; None if the profile has no launches."""
    launch: int | None = None
    cycles: int = 0
    """Cycles of waves in thread traces."""

    @property
    def small(self) -> bool:
        """Whether its hottest line can be determined within milliseconds, so that another answer can include it."""
        return self.instructions <= _SMALL


def has_code(workload: Workload) -> bool:
    """Whether a workload has data per instruction."""
    return workload.has("samples") or workload.has("instructions")


def sampled_kernels(workload: Workload) -> list[HotKernel]:
    """All kernels with samples or counts per instruction, longest total time first, or else most samples or cycles."""
    samples: dict[str, int] = {}
    instructions: dict[str, int] = {}
    cycles: dict[str, int] = {}
    if workload.has("samples"):
        table = workload.relation("samples")
        samples = dict(workload.rows(f"SELECT kernel, CAST(sum(count) AS BIGINT) FROM {table} GROUP BY kernel"))
    if workload.has("instructions"):
        table = workload.relation("instructions")
        cost = "CAST(sum(coalesce(latency_cycles, 0) + coalesce(idle_cycles, 0)) AS BIGINT)"
        for kernel, count, spent in workload.rows(f"SELECT kernel, count(*), {cost} FROM {table} GROUP BY kernel"):
            instructions[kernel], cycles[kernel] = count, spent
    times = workload.kernels if workload.has("dispatches") and workload.by == "kernel" else {}
    order = {kernel: place for place, kernel in enumerate(times)}
    names = sorted(
        {*samples, *instructions},
        key=lambda k: (order.get(k, len(order)), -samples.get(k, 0), -cycles.get(k, 0), k),
    )
    return [
        HotKernel(
            kernel,
            time.number if time else str(len(order) + place),
            samples.get(kernel, 0),
            instructions.get(kernel, 0),
            time.share_pct if time else None,
            time.launches if time else None,
            cycles=cycles.get(kernel, 0),
        )
        for place, (kernel, time) in enumerate(((name, times.get(name)) for name in names), 1)
    ]


def launches_of(workload: Workload, kernel: str) -> list[int]:
    """The launch configurations of a kernel that have samples or counts per instruction."""
    tables = [workload.relation(name) for name in ("samples", "instructions") if workload.has(name)]
    each = " UNION ".join(f"SELECT launch FROM {table} WHERE kernel = {sql_literal(kernel)}" for table in tables)
    return [launch for (launch,) in workload.rows(f"SELECT launch FROM ({each}) WHERE launch IS NOT NULL ORDER BY 1")]


def select_kernels(available: list[HotKernel], kernel: str | None, name: str) -> list[HotKernel]:
    """The kernels with samples that match a rank ("#2", "#2.1"), name or pattern; all without ``kernel``.

    Raises BadInput if none has samples, and NotFound with similar names if none matches.
    """
    if not available:
        raise BadInput(
            f"Workload {name!r} has no samples and no counts per instruction",
            "they are collected only on request",
            'Use profile_command with metrics=["hotspots"], or import a report of ncu with SourceCounters or output of '
            "rocprofv3 --pc-sampling-beta-enabled",
        )
    if kernel is None:
        return available
    if rank := _RANK.fullmatch(kernel):
        chosen = [one for one in available if one.number == rank[1]]
        if rank[2]:
            launch = int(rank[2])
            chosen = [
                HotKernel(one.kernel, f"{one.number}.{launch}", one.samples, one.instructions, None, None, launch)
                for one in chosen
            ]
    else:
        names = [one.kernel for one in available]
        fitting = set(select_names(kernel, names))
        chosen = [one for one in available if one.kernel in fitting]
    if not chosen:
        numbers = ", ".join(f"#{one.number}" for one in available[:8])
        raise NotFound(
            f"No kernel with samples matches {kernel[:100]!r} in {name!r}",
            near(kernel, [one.kernel for one in available]),
            f"Kernels with samples: {numbers}; list_workloads shows the names",
        )
    return chosen
