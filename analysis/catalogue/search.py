"""Select metrics by names and other words, and find them by what is written about them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from ..base.problems import BadArgument, near
from . import files
from .metrics import SUBSYSTEMS, Metric, by_name, counters_of, known_targets, metrics, presets, variants

_ALL_WORDS_SCORE, _NAME_SCORE, _SYNONYM_SCORE = 20.0, 100.0, 0.5
_WORDS = files.load(Path(__file__).with_suffix(".toml"))
_PER = "per wave, work-item, kernel, launch, cycle, second"
"""Words that match metrics with a normalization."""


def select_metrics(target: str, wanted: Iterable[str]) -> list[Metric]:
    """The metrics selected by names, ids (17.3.7), tables (17.3), panels (17), subsystems, presets or ``*``.

    An id selects the metrics that have it in any release of rocprof-compute: two if a table was renumbered. The order
    is that of the request, without duplicates. Raises BadArgument with similar names for an unknown word.
    """
    chosen: dict[str, Metric] = {}
    for word in wanted:
        hits = _metrics_of_word(word, target)
        if not hits:
            raise _unknown_metric(word, target)
        chosen |= {m.name: m for m in hits}
    return list(chosen.values())


def known_words(target: str, wanted: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The words that select metrics of a target, and a message for each other one. Raises BadArgument if none does.

    One typo in a long list should not prevent an answer.
    """
    words = list(wanted)
    unknown = {word: _unknown_metric(word, target) for word in words if not _metrics_of_word(word, target)}
    refusals = {word: BadArgument(p.what, p.why).text.removesuffix(".") for word, p in unknown.items()}
    if unknown and len(unknown) == len(set(words)):
        first, *_ = unknown.values()
        raise BadArgument(first.what, ". ".join([first.why, *list(refusals.values())[1:]]), first.fix)
    return [word for word in words if word not in unknown], refusals


def _metrics_of_word(word: str, target: str) -> list[Metric]:
    everything, known = metrics(target), by_name(target)
    if word in ("*", "everything", "all"):
        return list(everything)
    if word in known:
        return [known[word]]
    if word in presets():
        return [known[n] for n in presets()[word] if n in known]
    if word in SUBSYSTEMS:
        return [m for m in everything if m.subsystem == word]
    table, _, last = word.rpartition(".")
    return [
        m for m in everything
        if word in (m.id, m.newer_id, m.table, str(m.panel))
        or (m.per == "l2_channel" and m.table == table and last.isdigit())
    ]  # fmt: skip


def _unknown_metric(word: str, target: str) -> BadArgument:
    known = by_name(target)
    if elsewhere := known_targets(word):
        return BadArgument(
            f"Metric {word!r} does not exist on {target}",
            f"it exists on {', '.join(elsewhere)}. {_suggest_similar(by_name(elsewhere[0])[word], known)}".strip(),
            "search_metrics lists what this GPU has",
        )
    return BadArgument(
        f"Unknown metric {word!r}",
        _suggest_for_phrase(word, target) or near(word, [*known, *presets(), *SUBSYSTEMS]),
        "Give a name, an id (17.3.7), a table (17.3), a panel (17), a subsystem, a preset "
        f"({', '.join(presets())}) or *; search_metrics finds names",
    )


_LONGEST, _MOST_SUGGESTED = 200, 4
"""The characters of a phrase that are considered, and the most metrics suggested for it."""


def _suggest_for_phrase(phrase: str, target: str) -> str:
    """The names that match several words, such as a common title; empty for a single word."""
    if len(phrase.split()) < 2:
        return ""
    every = variants(target)
    best = fitting_best(phrase[:_LONGEST], every.values(), every)[:_MOST_SUGGESTED]
    names = [next(iter(on.values())).name for on in best]
    return f"Matching metrics: {', '.join(names)}" if names else ""


def _suggest_similar(lacking: Metric, known: dict[str, Metric]) -> str:
    """Metrics similar to one that a target lacks: those of the same unit with the closest names, preferably in the same
    subsystem."""
    quantity = _quantity(lacking)
    alike = [m for m in known.values() if m.unit == lacking.unit and not m.of]
    near_ones = get_close_matches(f"{quantity} {lacking.title}", [f"{_quantity(m)} {m.title}" for m in alike], 3, 0.6)
    with_close_titles = [m.name for text in near_ones for m in alike if f"{_quantity(m)} {m.title}" == text]
    same = [m.name for m in alike if _quantity(m) == quantity]
    close = list(dict.fromkeys([*same, *with_close_titles]))
    names = [name for name in close if known[name].subsystem == lacking.subsystem][:3] or close[:3]
    return f"Similar here: {', '.join(names)}" if names else ""


def _quantity(metric: Metric) -> str:
    return metric.name.partition(".")[2]


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
