"""Measures the ceilings of one GPU, one after the other; runs in a child process, for a GPU can hang or crash it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ...analysis.problems import BadArgument
from .device import open_device
from .judge import Outcome
from .measure import FULL, QUICK
from .session import Progress, Scale, Session
from .table import chosen

Mode = Literal["full", "quick", "functional"]
SCALES: dict[Mode, Scale] = {
    "full": Scale(2 << 30, FULL, 400, 240.0),
    "quick": Scale(1 << 30, QUICK, 100, 45.0),
    "functional": Scale(1 << 20, None, 0, 1800.0),
}


def run(
    device: str | int | None,
    wanted: list[str] | None,
    mode: Mode,
    *,
    progress: Progress = lambda name, number, total, outcome: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Outcome]:
    """Measure (or in mode functional only check) the wanted ceilings of a GPU; None for all.

    ``progress`` is told each ceiling's name, number and the total before it is measured, and its outcome after. What
    fails is an outcome with its reason; the order is that of the table, then ``hbm.bw``.

    Raises NotFound for an unknown device, target or ceiling, MissingTool where no runtime or compiler works.
    """
    if mode not in SCALES:
        raise BadArgument(f"There is no mode {mode!r}", "", f"Modes: {', '.join(SCALES)}")
    runtime = open_device(device)
    return Session(runtime, chosen(runtime.device.arch, wanted), SCALES[mode], progress, cancelled).outcomes()
