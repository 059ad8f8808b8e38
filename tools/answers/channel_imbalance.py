"""Figures of single L2 channels in a short answer: a row for each metric and kernel, with how even its channels are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from ...analysis.engine.evaluation import Figure
from ..base.results import Table, round_number, table

_COLUMNS = {
    **dict.fromkeys(("id", "name", "kernel", "channels", "mean", "min", "max")),
    "imbalance_pct": "%",
    **dict.fromkeys(("unit", "status", "reason")),
}
_WORST = ("ok", "undefined", "not_supported", "not_collected", "suspect", "impossible")
"""States from good to bad: the worst of its channels is that of the row."""


def fold_channels(figures: Sequence[Figure], asked: Collection[str]) -> tuple[list[Figure], Table | None]:
    """The figures without those of channels that nobody asked for one by one, and these as a table.

    ``imbalance_pct`` is 100 * (1 - mean / max): 0 where all channels do the same; None where max is not positive.
    """
    single = [f for f in figures if f.metric.per == "l2_channel" and not {f.id, f.name} & set(asked)]
    groups: dict[tuple[str, str | None], list[Figure]] = {}
    for figure in single:
        groups.setdefault((figure.metric.name, figure.kernel), []).append(figure)
    if not groups:
        return list(figures), None
    left_out = set(map(id, single))
    return [f for f in figures if id(f) not in left_out], table(_COLUMNS, [_row(of) for of in groups.values()])


def _row(channels: list[Figure]) -> list[object]:
    first = channels[0]
    values = [f.value for f in channels if f.value is not None]
    mean, most = (fmean(values), max(values)) if values else (None, None)
    uneven = 100 * (1 - mean / most) if mean is not None and most is not None and most > 0 else None
    worst = max(channels, key=lambda f: _WORST.index(f.status))
    figures = [mean, min(values, default=None), most, uneven]
    return [
        first.metric.table,
        first.metric.name,
        first.kernel,
        len(values),
        *map(round_number, figures),
        first.unit,
        worst.status,
        worst.reason and worst.reason.text,
    ]
