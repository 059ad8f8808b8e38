"""Sampling with rocprofv3: program counters (method, unit, an interval that the device accepts), counters over time.

Sources: AMD's "Using PC sampling" of rocprofiler-sdk (methods by GPU, units, power-of-two cycles, the output of
``rocprofv3 -L``) and ROCm/rocm-systems pull request 6894 (minimum interval and defaults of rocprof-compute);
for counters, AMD's "Using SPM" of rocprofiler-sdk, and "Collect and view SPM counters" of ROCprof Compute Viewer.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .....analysis.base.notes import Note
from .....analysis.catalogue import targets
from .....analysis.catalogue.targets import PcSampling
from ...known_failures import version_numbers
from ...request import ProfileRequest
from ...wording import note, problem

if TYPE_CHECKING:
    from .features import Rocprofv3Features

_METHOD = re.compile(
    r"Method\s*:\s*(?P<method>\w+)\s+Unit\s*:\s*(?P<unit>\w+)\s+"
    r"Min_Interval\s*:\s*(?P<least>\d{1,20})\s+Max_Interval\s*:\s*(?P<most>\d{1,20})"
)
_TIMES = 200
"""Number of samples that every compute unit should get during the total kernel time, if that is known."""
_MOST_INTERVAL = 2**31
_CYCLES = 2.0e9
"""Approximate cycles per second, to convert a time into an interval in cycles."""


@dataclass(frozen=True)
class ListedSamplingMethod:
    """A sampling method that the local rocprofv3 lists for a device."""

    method: str
    least: int
    most: int


def parse_sampling_methods(listing: str) -> tuple[ListedSamplingMethod, ...]:
    """Return the sampling methods in the output of ``rocprofv3 --list-avail``, one entry for each."""
    methods = [
        ListedSamplingMethod(m["method"].lower(), int(m["least"]), int(m["most"])) for m in _METHOD.finditer(listing)
    ]
    return tuple(dict.fromkeys(methods))


def options(request: ProfileRequest, features: Rocprofv3Features) -> tuple[str, ...]:
    """Return the arguments for sampling with the target's best method, preferably one that this machine lists.

    Raises MissingTool if this rocprofv3 does not have the options, and BadArgument for a target that cannot be sampled.
    """
    if not features.pc_sampling:
        raise problem("no_pc_sampling_options", features=features)
    way = _choose_sampling(request.target, features.sampled)
    limits = next((o for o in features.sampled if o.method == way.method), None)
    interval = _interval(way, request.busy_s, limits)
    return (
        "--pc-sampling-beta-enabled", "--pc-sampling-method", way.method, "--pc-sampling-unit", way.unit,
        "--pc-sampling-interval", str(interval),
    )  # fmt: skip


def notes(request: ProfileRequest, local: Sequence[ListedSamplingMethod]) -> list[Note]:
    """Return a note on the cost and limits of sampling."""
    way = _choose_sampling(request.target, local)
    return [note("skidding.hotspots" if way.unit == "time" else "hotspots")]


def _choose_sampling(target: str, local: Sequence[ListedSamplingMethod]) -> PcSampling:
    """Return the sampling method of a target, preferably one that the local rocprofv3 lists."""
    known = targets.find_target(target)
    if known is not None:
        ways = known.pc_sampling
    else:
        # A target without a file is sampled as this machine lists it, with the usual intervals of the methods.
        ways = max((targets.gpu(name).pc_sampling for name in targets.targets()), key=len) if local else []
    if not ways:
        raise problem("no_pc_sampling", target=target or "This GPU")
    return next((way for way in ways if way.method in [one.method for one in local]), ways[0])


def _interval(way: PcSampling, busy_s: float | None, limits: ListedSamplingMethod | None) -> int:
    """Return the usual interval, or a shorter one for short programs; a power of two if the hardware requires it."""
    interval = way.usual
    if busy_s is not None:
        wanted = busy_s / _TIMES * (_CYCLES if way.unit == "cycles" else 1e6)
        interval = int(min(way.usual, max(way.finest, wanted)))
    least, most = (limits.least, limits.most) if limits else (1, _MOST_INTERVAL)
    interval = min(max(interval, least), most)
    if way.power_of_two:
        interval = 1 << (interval.bit_length() - 1)
        interval = interval if interval >= least else interval * 2
    return interval


THREAD_TRACE = note("thread_trace")
_SPM_SINCE = (1, 3, 2)


def counter_samples(request: ProfileRequest, version: str) -> Note:
    """Return how to sample counters in time inside kernels (SPM), what that excludes, and its risk.

    Raises MissingTool if ``version`` of rocprofv3 does not support it.
    """
    if version_numbers(version) < _SPM_SINCE:
        raise problem("no_counter_samples", version=version)
    if request.pid is not None:
        raise problem("counter_samples_of_process")
    return note("counter_samples", command=shlex.join(request.command))
