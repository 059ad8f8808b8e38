"""The short answer of compute_metrics for presets: informative rows, names of zero and missing metrics, few digits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from ...analysis.base.notes import Reason
from ...analysis.catalogue import metrics as catalog
from ...analysis.engine.evaluation import NO_AGGREGATE, Figure
from ..base.results import Table, round_number
from .tables import Row, table_from

_FEWER = 5
"""Significant digits of the numbers next to a value, such as its minimum and its peak."""
IN_NOTES = Reason("doubted", "see notes")


@dataclass(frozen=True)
class Brief:
    """Figures that get a row, names of metrics that are zero, and names of metrics without a value, by status."""

    figures: list[Figure]
    zeros: list[str] = field(default_factory=list)
    without_value: dict[str, list[str]] = field(default_factory=dict)
    folded: bool = False


def asked_for_presets(metrics: Sequence[str]) -> bool:
    """Return whether only presets were named, so that no single metric was asked for by its name."""
    return all(word in catalog.presets() and word not in catalog.SUBSYSTEMS for word in metrics)


def brief(figures: Sequence[Figure]) -> Brief:
    """Return ``figures`` without those that are zero without doubt, or have no value, for every kernel."""
    by_name, without = defaultdict[str, list[Figure]](list), defaultdict[str, list[str]](list)
    for figure in figures:
        by_name[figure.name].append(figure)
    zeros = list[str]()
    for name, kept_figures in by_name.items():
        if all(f.value is None for f in kept_figures):
            without[kept_figures[0].status].append(name)
        elif all(f.value == 0 and not f.over.min and not f.over.max and f.status == "ok" for f in kept_figures):
            zeros.append(name)
    folded = {*zeros, *(name for names in without.values() for name in names)}
    return Brief([_short(f) for f in figures if f.name not in folded], zeros, without, folded=True)


def _short(figure: Figure) -> Figure:
    """Return the figure with fewer digits, no range if all launches agree, and a doubt left to the notes."""
    told, over = figure.reason is not None and figure.reason.code == "doubted", figure.over
    apart = over.min != over.max
    return replace(
        figure,
        value=round_number(figure.value),
        over=replace(over, min=round_number(over.min, _FEWER), max=round_number(over.max, _FEWER))
        if apart
        else NO_AGGREGATE,
        peak=round_number(figure.peak, _FEWER),
        pct_of_peak=round_number(figure.pct_of_peak, _FEWER),
        reason=IN_NOTES if told else figure.reason,
    )


_WORST = ("ok", "undefined", "not_supported", "not_collected", "suspect", "impossible")
"""Statuses from good to bad: the row of a metric gets the worst status of its channels."""


def fold_channels(figures: Sequence[Figure], asked: Collection[str]) -> tuple[list[Figure], Table | None]:
    """Split off the figures of single L2 channels that were not asked for by name, and return them as a table.

    ``imbalance_pct`` is 100 * (1 - mean / max): 0 if all channels have the same value; None if max is not positive.
    """
    single = [f for f in figures if f.metric.per == "l2_channel" and not {f.id, f.name} & set(asked)]
    groups: dict[tuple[str, str | None], list[Figure]] = defaultdict(list)
    for figure in single:
        groups[figure.metric.name, figure.kernel].append(figure)
    left_out = set(map(id, single))
    channels = table_from("channels", [*map(_row, groups.values())]) if single else None
    return [f for f in figures if id(f) not in left_out], channels


def _row(channels: list[Figure]) -> Row:
    values = [f.value for f in channels if f.value is not None]
    mean, most = (fmean(values), max(values)) if values else (None, None)
    uneven = 100 * (1 - mean / most) if mean is not None and most is not None and most > 0 else None
    figures = {"mean": mean, "min": min(values, default=None), "max": most, "imbalance_pct": uneven}
    worst = max(channels, key=lambda f: _WORST.index(f.status))
    about = {"first": channels[0], "channels": len(values), "worst": worst}
    return about | {name: round_number(value) for name, value in figures.items()}
