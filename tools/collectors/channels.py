"""Counters of single L2 channels: which channels a device has, and the names of their counters."""

from __future__ import annotations

from ...analysis.events import EVERY
from ...analysis.products import products
from .steps import Request


def channels(request: Request) -> tuple[int, int] | None:
    """XCDs and L2 channels of one XCD: of the device, else those that all products of the target share.

    None where neither is known: MI300A and MI300X are one target with different numbers of XCDs.
    """
    known = request.facts
    if "num_xcd" in known and "total_l2_chan" in known:
        return _split(known["num_xcd"], known["total_l2_chan"])
    shared = {
        (p.facts["num_xcd"].value, p.facts["total_l2_chan"].value)
        for p in products().values()
        if p.target == request.target and {"num_xcd", "total_l2_chan"} <= p.facts.keys()
    }
    if "num_xcd" in known:
        # Partitions have fewer XCDs than the product, but each with the product's channels.
        each = {total / xcds for xcds, total in shared}
        return (int(known["num_xcd"]), int(each.pop())) if len(each) == 1 else None
    return _split(*shared.pop()) if len(shared) == 1 else None


def per_channel(counter: str) -> str | None:
    """The event of a counter asked for on every channel, such as TCC_HIT of ``TCC_HIT[*]``, or None."""
    return counter.removesuffix(EVERY) if counter.endswith(EVERY) else None


def _split(xcds: float, total: float) -> tuple[int, int] | None:
    return (int(xcds), int(total) // int(xcds)) if xcds >= 1 and total >= xcds else None
