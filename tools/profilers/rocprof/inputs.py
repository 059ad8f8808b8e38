"""Input files of rocprof and rocprofv2: one line of counters, in the spelling and order that they need."""

from __future__ import annotations

from ....analysis.catalogue.events import level_of
from ....analysis.problems import BadArgument
from ..request import Request, channels, check_limits, name_parts, per_channel, refuse, refuse_kernel_replay
from ..tables.merge import ACCUMULATE


def input_text(request: Request, counters: tuple[str, ...], profiler: str) -> str:
    """The file for one pass.

    The accumulator integrates the counter selected directly before it, so it follows its level; single L2 channels
    are written out, as they are numbered within one XCD.
    """
    names: list[str] = []
    for counter in counters:
        if level_of(counter):
            names.append(ACCUMULATE)
        elif event := per_channel(counter):
            found = channels(request)
            names += [f"{event}[{i}]" for i in range(found[1])] if found else []
        else:
            names.append(counter)
    lines = [f"pmc: {' '.join(names)}"]
    if parts := name_parts(request, profiler):
        lines.append(f"kernel: {' '.join(parts)}")
    return "\n".join(lines) + "\n"


def check(request: Request, profiler: str) -> None:
    """BadArgument for what the old profilers have no option for, or what does not fit into a pass."""
    refuse(request, profiler, "launches")
    refuse_kernel_replay(request, profiler)
    name_parts(request, profiler)
    check_limits(request)
    if request.command[0].startswith("-"):
        raise BadArgument(f"{profiler} would take {request.command[0][:80]!r} for an option", "", "Give a path to it")


def left_out(request: Request) -> dict[str, str]:
    """Counters of single L2 channels where the number of channels is not known -> why."""
    if channels(request) is not None:
        return {}
    why = "how many L2 channels the device has is not known; name the product (MI300X) as gpu"
    return {c: why for counters in request.passes for c in counters if per_channel(c)}
