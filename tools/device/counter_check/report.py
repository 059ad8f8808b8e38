"""Present the results of a check: rows, notes, and a report to send, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ....analysis.base.text import count_text
from ...base.results import Table, table

COLUMNS = {
    **dict.fromkeys(("metric", "verdict", "expected", "measured", "unit")),
    "ratio": "measured / expected",
    **dict.fromkeys(("kernel", "kernels", "cause")),
}
_ORDER = {"off": 0, "holds": 1, "not_determined": 2}
_SAMPLE = 10
"""Number of metrics that hold to show in a short answer."""


def rows_of(metric_rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return all metrics: first those that do not hold, then those that do, then the undetermined ones."""
    ordered = sorted(metric_rows, key=lambda row: _ORDER[row["verdict"]])
    return table(COLUMNS, [[row[name] for name in COLUMNS] for row in ordered])


def answers_of(answers: Sequence[Mapping[str, Any]]) -> Table:
    """Return the open questions with the interpretations that hold here."""
    names = ("question", "answer", "evidence")
    return table(dict.fromkeys(names), [[one[name] for name in names] for one in answers])


def shorten(whole: Table) -> Table:
    """Return the table with everything that does not hold, and a sample of what does."""
    place = whole.columns.index("verdict")
    off = [row for row in whole.rows if row[place] == "off"]
    holds = [row for row in whole.rows if row[place] == "holds"]
    kept = [*off, *holds[:: max(1, -(-len(holds) // _SAMPLE))]]
    return whole.model_copy(update={"rows": kept, "truncated": len(kept) < len(whole.rows)})


def notes(metric_rows: Sequence[Mapping[str, Any]], wrong: Mapping[str, str]) -> list[str]:
    """Return the counts, what the verdicts mean, and the kernels with wrong results."""
    counts = Counter(row["verdict"] for row in metric_rows)
    sentences = [
        f"{count_text(counts['holds'], 'metric holds', 'metrics hold')} on this device, {counts['off']} do not, "
        f"{counts['not_determined']} are not determined by kernels with known work."
    ]
    sentences += [f"{kernel}: {what}, so its counters prove nothing." for kernel, what in wrong.items()]
    reasons = Counter(row["cause"] for row in metric_rows if row["verdict"] == "not_determined")
    sentences += [f"Not determined, {number}: {why}." for why, number in reasons.most_common(4)]
    return sentences


def document(
    about: Mapping[str, Any], metric_rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]
) -> str:
    """Return the report as JSON; it names the kind of device and software but not this machine or its user."""
    counts = Counter(row["verdict"] for row in metric_rows)
    return json.dumps({"about": about, "counts": counts, "questions": answers, "metrics": metric_rows}, indent=1) + "\n"


def markdown(
    about: Mapping[str, Any], metric_rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]
) -> str:
    """Return the same report for people."""
    stated = [f"- {name}: {value}" for name, value in about.items() if value not in (None, "")]
    lines = ["# Check of counters and formulas", "", *stated]
    counts = Counter(row["verdict"] for row in metric_rows)
    lines += [
        "",
        f"{count_text(counts['holds'], 'metric holds', 'metrics hold')}, {counts['off']} do not, "
        f"{counts['not_determined']} not determined.",
    ]
    for verdict, (title, columns) in _SECTIONS.items():
        lines += _section(title, columns, [row for row in metric_rows if row["verdict"] == verdict])
    if answers:
        lines += _section("Questions", _QUESTION, answers)
    return "\n".join(lines) + "\n"


_METRIC = {name: name for name in ("metric", "expected", "measured", "unit", "ratio", "kernel")}
_METRIC |= {"of": "kernels", "cause": "cause"}
_SECTIONS = {
    "off": ("Does not hold", _METRIC),
    "holds": ("Holds", _METRIC),
    "not_determined": ("Not determined", {"metric": "metric", "why": "cause"}),
}
_QUESTION = {"question": "question", "reading that holds": "answer", "evidence": "evidence"}
"""The titles of columns, and what they show."""


def _section(title: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["", f"## {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return lines + [f"| {' | '.join(_cell(row[name]) for name in columns.values())} |" for row in rows]


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
