"""Which GPU to measure: by number, UUID or vendor, among those that the runtimes show."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...analysis.problems import MissingTool, NotFound
from . import cuda, hip
from .runtime import Device, Runtime

_OPEN: dict[str, tuple[Callable[[], int], Callable[[int], Runtime]]] = {
    "nvidia": (cuda.count, cuda.Cuda),
    "amd": (hip.count, hip.Hip),
}


def describe(device: str | int | None = None) -> Device:
    """The GPU that ``open_device`` would open."""
    return open_device(device).device


def open_device(device: str | int | None = None) -> Runtime:
    """Open a GPU: a number (counted within the vendor, NVIDIA first), "amd", "nvidia:1", a UUID, or None for the first.

    Raises MissingTool where no runtime works, with what each said, and NotFound where no GPU is meant.
    """
    word = "" if device is None else str(device).strip()
    named = re.fullmatch(r"(?:(amd|nvidia):?)?(\d+)?", word)
    vendors = [named[1]] if named and named[1] else list(_OPEN)
    said, seen = [], []
    for vendor in vendors:
        count, opened = _OPEN[vendor]
        try:
            number = count()
        except MissingTool as problem:
            said.append(f"{vendor}: {problem.why}. {problem.fix}")
            continue
        if named and (index := int(named[2] or 0)) < number:
            return opened(index)
        for index in [] if named else range(number):
            runtime = opened(index)
            if runtime.device.uuid == word:
                return runtime
            seen.append(runtime.device.uuid)
        said.append(f"{vendor}: {number} GPUs")
    if seen or word:
        known = f"UUIDs: {', '.join(seen)}" if seen else ""
        raise NotFound(f"There is no GPU {word!r} to measure", "; ".join(said), known)
    raise MissingTool("There is no GPU to measure", "; ".join(said), "rooflens doctor says what this machine has")
