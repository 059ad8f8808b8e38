"""Replays of one launch that lasted differently, so that figures of different replays do not belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....analysis.database import sql_name
from ....analysis.doubts import EVERY, Doubt
from ....analysis.text import counted
from .recorded import LISTED, Faults, Found, Tables, some

_ONE_CLOCK = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")
"""The same cycles of the same clock, counted in different replays of ncu."""
_UNEVEN_PCT = 20
"""Of 653 launches on an H200 647 lie within 13 %, one of 8 ms at 16 %, and five, whose work differs, at 40 to 52 %."""


def uneven(tables: Tables) -> Faults:
    """Launches whose replays lasted differently, by the cycles of one clock in two units counted in different replays.

    What a kernel does may depend on chance or on the order in which its work-groups run.
    """
    if not tables.has(*_ONE_CLOCK):
        return
    one, other = (f"c.{sql_name(name)}" for name in _ONE_CLOCK)
    apart = f"100 * (greatest({one}, {other}) / nullif(least({one}, {other}), 0) - 1)"
    found = tables.most(apart, _UNEVEN_PCT)
    if found:
        of, most = counted(tables.merged.kernels, "kernel"), max(found.values())
        text = (
            f"In {len(found)} of {of} the replays of one launch lasted differently, by up to {most:.0f} % "
            f"({some(list(found))}): what they do depends on chance or scheduling, and figures of different replays do "
            "not belong together"
        )
        fix = "Profile with a fixed seed, or few metrics in one pass: plan_profile."
        yield Found("uneven_replays", f"{text}. {fix}", tuple(_lasting(pct, names) for pct, names in _alike(found)))


def _lasting(pct: float, kernels: tuple[str, ...]) -> Doubt:
    brief = f"replays of this launch lasted differently, by {pct:.0f} %"
    return Doubt("uneven_replays", brief, (EVERY,), times=True, kernels=kernels)


def _alike(found: Mapping[str, float]) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Kernels by how far apart their replays are, in percent: each of a few by itself, of many those of ten percent."""
    step = 1 if len(found) <= LISTED else 10
    together: dict[int, list[str]] = {}
    for name, pct in found.items():
        together.setdefault(int(pct // step), []).append(name)
    for names in together.values():
        yield max(found[name] for name in names), tuple(names)
