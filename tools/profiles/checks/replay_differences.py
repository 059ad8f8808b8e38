"""Replays of one launch that lasted differently, so that figures of different replays do not belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....analysis.base.database import sql_name
from ....analysis.base.text import count_text
from ....analysis.store.doubts import EVERY_COUNTER, Doubt
from .imported_tables import LISTED, CheckResult, CheckResults, ImportedTables, some_names

_ONE_CLOCK = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")
"""The same cycles of the same clock, counted in different replays of ncu."""
_UNEVEN_PCT = 20
"""Of 653 launches on an H200 647 lie within 13 %, one of 8 ms at 16 %, and five, whose work differs, at 40 to 52 %."""


def uneven_replays(tables: ImportedTables) -> CheckResults:
    """Launches whose replays lasted differently, by the cycles of one clock in two units counted in different replays.

    What a kernel does may depend on chance or on the order in which its work-groups run.
    """
    if not tables.has(*_ONE_CLOCK):
        return
    one, other = (f"c.{sql_name(name)}" for name in _ONE_CLOCK)
    apart = f"100 * (greatest({one}, {other}) / nullif(least({one}, {other}), 0) - 1)"
    spread_by_kernel = tables.highest_by_kernel(apart, _UNEVEN_PCT)
    if spread_by_kernel:
        of, most = count_text(tables.merged.kernels, "kernel"), max(spread_by_kernel.values())
        text = (
            f"In {len(spread_by_kernel)} of {of} the replays of one launch lasted differently, by up to {most:.0f} % "
            f"({some_names(list(spread_by_kernel))}): what they do depends on "
            "chance or scheduling, and figures of different replays do "
            "not belong together"
        )
        fix = "Profile with a fixed seed, or few metrics in one pass: plan_profile."
        yield CheckResult(
            "uneven_replays",
            f"{text}. {fix}",
            tuple(_uneven_doubt(pct, names) for pct, names in _group_by_spread(spread_by_kernel)),
        )


def _uneven_doubt(pct: float, kernels: tuple[str, ...]) -> Doubt:
    brief = f"replays of this launch lasted differently, by {pct:.0f} %"
    return Doubt("uneven_replays", brief, (EVERY_COUNTER,), times=True, kernels=kernels)


def _group_by_spread(spread_by_kernel: Mapping[str, float]) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Kernels by how far apart their replays are, in percent: each of a few by itself, of many those of ten percent."""
    step = 1 if len(spread_by_kernel) <= LISTED else 10
    groups: dict[int, list[str]] = {}
    for name, pct in spread_by_kernel.items():
        groups.setdefault(int(pct // step), []).append(name)
    for names in groups.values():
        yield max(spread_by_kernel[name] for name in names), tuple(names)
