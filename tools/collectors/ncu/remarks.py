"""What is to be said about a page of ncu: units that are not known, lines and metrics left out, rounded zeros."""

from __future__ import annotations

from ..names import plain_text
from ..staged import Staged
from .pages import Page


def unknown_units(page: Page, factors: dict[int, float | None]) -> list[str]:
    """A sentence on values whose unit has no factor, or is not there."""
    if not page.units:
        return [f"{page.source.name} has no row of units below its header: values are kept as printed, in any scale."]
    unknown = sorted({page.units[i] for i, factor in factors.items() if factor is None})
    if not unknown:
        return []
    example = next(page.headers[i] for i, factor in factors.items() if factor is None)
    listed = ", ".join(repr(plain_text(u, 20)) for u in unknown[:6])
    return [
        f"{page.source.name}: unknown units {listed} (for instance of {example}): "
        "these values are kept as printed and may be scaled."
    ]


def left_out(page: Page, kinds: dict[int, str], empty: set[str]) -> list[str]:
    """Sentences on what the page holds beside launches, and on metrics that were measured in none."""
    notes = []
    if page.foreign:
        notes.append(f"{page.source.name}: {page.foreign} lines of other output among the table were skipped.")
    if blank := [page.headers[i] for i, kind in kinds.items() if kind == "number" and page.headers[i] in empty]:
        notes.append(
            f"{page.source.name}: {len(blank)} metrics without a value in any launch were left out "
            f"(such as {blank[0]})."
        )
    return notes


def rounded_zeros(page: Page, factors: dict[int, float | None], staged: Staged) -> list[str]:
    """ncu chooses one unit for a column and prints six decimals, so that small values of it become zero."""
    scaled = [
        (page.headers[i], page.units[i])
        for i, factor in factors.items()
        if factor is not None and factor > 1 and staged.bounds.get(page.headers[i], (1, 1))[0] == 0
    ]
    if not scaled:
        return []
    metric, unit = scaled[0]
    return [
        f"{page.source.name}: zeros of {len(scaled)} metrics (such as {metric} in {unit}) may be small values that the "
        "page rounded away; the report, or a page written with --print-units base, has them."
    ]
