"""The ranks of a program side by side: a bar for each, of what its devices did, with their mean and who stands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..base.text import count_text
from ..timeline.rank_balance import Balance, RankRow
from .style import FAINT, INK, NORMAL, SMALL, WIDTH, Page

HEIGHT = 190
"""Pixels of the panel with its title and axis."""
_LEFT, _TOP, _BELOW = 62, 24, 44
_SINGLE = 96
"""Ranks up to which bars stand apart; more become one silhouette, a column for each."""
_TICKS = 12
_COLOURS = {"computing": "#0072B2", "communication": "#CC79A7", "copies": "#E69F00"}


@dataclass(frozen=True)
class RankBars:
    """What the panel shows: ms a device of each rank by key, ranks in order, and which one computes longest."""

    ranks: Sequence[int | None]
    parts: Mapping[str, Sequence[float]]
    mean_ms: float
    slowest: int
    """Its place among ``ranks``."""
    title: str


def of_balance(balance: Balance) -> RankBars:
    """The panel of the balance of ranks."""

    def ms(row: RankRow, key: str) -> float:
        return float(getattr(row, key)) / row.devices / 1e6

    parts = {key: [ms(row, key) for row in balance.rows] for key in _COLOURS}
    ranks = count_text(len(balance.rows), "rank")
    title = f"{ranks}: load balance {balance.load_balance_pct or 0:.3g} % (mean over maximum)"
    if not balance.even:
        title += f", {balance.slowest.name} computes {balance.excess_pct:.3g} % longer than the mean"
    return RankBars(
        [row.rank for row in balance.rows],
        {key: values for key, values in parts.items() if any(values)},
        balance.mean / 1e6,
        balance.rows.index(balance.slowest),
        title,
    )


def draw(made: Page, shown: RankBars, top: float) -> None:
    """Draw the panel at ``top`` of a page."""
    made.text(20, top, shown.title, fontsize=NORMAL, kind="ranks")
    axes = made.axes(_LEFT, top + _TOP, WIDTH - _LEFT - 24, HEIGHT - _TOP - _BELOW)
    count = len(shown.ranks)
    base = [0.0] * count
    for key, values in shown.parts.items():
        tops = [b + v for b, v in zip(base, values, strict=True)]
        if count <= _SINGLE:
            axes.bar(range(count), values, width=0.8, bottom=base, color=_COLOURS[key], linewidth=0, gid=f"ranks-{key}")
        else:
            # A column of its own for each rank: the silhouette keeps single peaks that thin bars would lose.
            edges, low, high = [n - 0.5 for n in range(count + 1)], [*base, base[-1]], [*tops, tops[-1]]
            axes.fill_between(edges, low, high, step="post", color=_COLOURS[key], linewidth=0.6, gid=f"ranks-{key}")
        base = tops
    highest = max([*base, shown.mean_ms], default=1.0) or 1.0
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(0, 1.18 * highest)
    axes.axhline(shown.mean_ms, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), gid="ranks-mean")
    right = shown.slowest > count / 2
    axes.annotate(
        f"rank {shown.ranks[shown.slowest]}" if shown.ranks[shown.slowest] is not None else "no rank",
        (shown.slowest, base[shown.slowest]),
        xytext=(-6 if right else 6, 5),
        textcoords="offset points",
        ha="right" if right else "left",
        fontsize=SMALL,
        color=INK,
        gid="ranks-slowest",
    )
    step = max(1, -(-count // _TICKS))
    axes.set_xticks(range(0, count, step), [str(shown.ranks[n]) for n in range(0, count, step)])
    axes.tick_params(labelsize=SMALL, colors=FAINT, length=3)
    axes.set_ylabel("ms a device", fontsize=SMALL, color=FAINT)
    words = {"computing": "kernels", "communication": "communication", "copies": "copies"}
    key = "rank;  " + ", ".join(f"{_NAMES[k]}: {words[k]}" for k in shown.parts) + "; dashed: mean of kernels"
    made.text(_LEFT, top + HEIGHT - 18, key, color=FAINT, kind="ranks")


_NAMES = {"computing": "blue", "communication": "pink", "copies": "orange"}
