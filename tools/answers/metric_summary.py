"""The short answer of compute_metrics to a preset: rows that say something, zeros and gaps by name, few digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...analysis.base.notes import Reason
from ...analysis.catalogue import metrics as catalog
from ...analysis.engine.evaluation import Figure
from ..base.results import round_number

_FEWER = 5
"""Digits of what stands beside a value."""
IN_NOTES = Reason("doubted", "see notes")


@dataclass(frozen=True)
class Brief:
    """Figures worth a row; the names of those that are zero, and of those without a value by status."""

    figures: list[Figure]
    zeros: list[str] = field(default_factory=list)
    without_value: dict[str, list[str]] = field(default_factory=dict)
    folded: bool = False


def asked_for_presets(metrics: Sequence[str]) -> bool:
    """Whether nothing was named but presets: what is in one is not what the caller asked for word by word."""
    return all(word in catalog.presets() and word not in catalog.SUBSYSTEMS for word in metrics)


def brief(figures: Sequence[Figure]) -> Brief:
    """``figures`` without those that are zero beyond doubt, or have no value, for every kernel."""
    by_name: dict[str, list[Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.name, []).append(figure)
    zeros, without = list[str](), dict[str, list[str]]()
    for name, kept_figures in by_name.items():
        if all(f.value is None for f in kept_figures):
            without.setdefault(kept_figures[0].status, []).append(name)
        elif all(_nothing(f) for f in kept_figures):
            zeros.append(name)
    folded = {*zeros, *(name for names in without.values() for name in names)}
    return Brief([_short(f) for f in figures if f.name not in folded], zeros, without, folded=True)


def _nothing(figure: Figure) -> bool:
    return figure.value == 0 and not figure.min and not figure.max and figure.status == "ok"


def _short(figure: Figure) -> Figure:
    """With the digits that a reader needs, no range where there is none, and a doubt told by the notes alone."""
    told, apart = figure.reason is not None and figure.reason.code == "doubted", figure.min != figure.max
    return replace(
        figure,
        value=round_number(figure.value),
        min=round_number(figure.min, _FEWER) if apart else None,
        max=round_number(figure.max, _FEWER) if apart else None,
        peak=round_number(figure.peak, _FEWER),
        pct_of_peak=round_number(figure.pct_of_peak, _FEWER),
        reason=IN_NOTES if told else figure.reason,
    )
