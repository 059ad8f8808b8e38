"""Find metrics by words, for search_metrics and for suggestions after an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import files
from .metrics import Metric, counters_of

_ALL_WORDS_SCORE, _NAME_SCORE, _SYNONYM_SCORE = 20.0, 100.0, 0.5
_WORDS = files.load(Path(__file__).with_suffix(".toml"))
_PER = "per wave, work-item, kernel, launch, cycle, second"
"""Words that match metrics with a normalization."""


def fitting_best(
    query: str, entries: Iterable[dict[str, Metric]], every: dict[str, dict[str, Metric]]
) -> list[dict[str, Metric]]:
    """The metrics (each by target) that match words, a name, an id or a counter, best match first.

    ``every`` contains all metrics by name; among equal matches the plainest name comes first.
    """
    scored = sorted(((_score(query, on), on) for on in entries), key=lambda s: (-s[0], *_plainness(every, s[1])))
    return _without_repeats([(score, on) for score, on in scored if score])


def counters_read(target: str, metric: Metric) -> list[str]:
    """The counters that a metric reads, whether or not they are ever requested."""
    return counters_of(target, [metric.num, metric.den or "1"])


def _without_repeats(scored: list[tuple[float, dict[str, Metric]]]) -> list[dict[str, Metric]]:
    """The metrics without repetitions of another match in a further table (sol_, summary_, chart_).

    A metric whose name or id was requested is kept.
    """
    names = {(next(iter(on.values())).name) for _, on in scored}
    return [
        on
        for score, on in scored
        if score >= _NAME_SCORE or not all(m.of is not None and m.of in names and m.of != m.name for m in on.values())
    ]


def _score(query: str, on: dict[str, Metric]) -> float:
    """The score of a match, 0 for none; names and ids weigh more than titles, titles more than descriptions."""
    if not query.strip():
        return 1.0
    metric = next(iter(on.values()))
    word = query.strip().casefold()
    ids = {i for m in on.values() for i in (m.id, m.newer_id, m.table, str(m.panel))}
    if word in (metric.name, metric.subsystem) or word in ids:
        return _NAME_SCORE
    counters = " ".join(c for target, m in on.items() for c in counters_read(target, m)) if "_" in word else ""
    fields = (
        (metric.name, 8.0),
        (metric.title, 6.0),
        (counters, 4.0),
        (metric.table_title, 3.0),
        (metric.subsystem, 3.0),
        (metric.description, 2.0),
        (_PER if metric.norm else "", 2.0),
    )
    words = word.replace("-", " ").split()
    words = [t for t in words if t not in _WORDS["small"]] or words
    hits = [max(w * _word_score(t, text) for text, w in fields) for t in words]
    # Matches of all words come before matches of some, whatever the weights.
    return _ALL_WORDS_SCORE * sum(map(bool, hits)) / len(hits) + sum(hits) / len(hits) if any(hits) else 0.0


def _word_score(token: str, text: str) -> float:
    """1 if a word is in a text, less if only a synonym is, else 0."""
    folded = text.casefold()
    if token in folded:
        return 1.0
    return _SYNONYM_SCORE if any(one in folded for one in _WORDS["synonyms"].get(token, ())) else 0.0


def _plainness(every: dict[str, dict[str, Metric]], on: dict[str, Metric]) -> tuple[bool, int]:
    """The sort key among equal matches: figures in their own table first, then the shortest names."""
    metric = next(iter(on.values()))
    same_name = next(iter(every[metric.name].values()))
    return metric.of is not None, len(same_name.name) + len(same_name.title)
