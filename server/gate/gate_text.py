"""The text of a gate: lines for a terminal, a Markdown summary, and plain facts.

Names of kernels, workloads and devices are untrusted text. They are escaped, so that they cannot contain markup, links,
mentions, or commands to a CI runner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...analysis.base.text import inert, short_time, shorten, visible
from ...analysis.comparison.gate import Gate, Item
from ...analysis.comparison.sentences import short

_ICONS = {"pass": "✅", "fail": "❌", "inconclusive": "❔", "new": "🆕", "vanished": "➖", "ignored": "➖"}
_AS_STATED = ("kind", "name", "metric", "status", "code", "why", "baseline", "candidate", "unit")
_LONGEST = 500
_ROWS = 100
"""The maximum number of rows in the table of a summary; GitHub shows 1 MiB."""
_BACKTICKS = re.compile(r"`+")
_ACTIVE = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]()<>+-.!|~^$"} | {"@": "＠", "#": "＃"})


def facts(gate: Gate) -> dict[str, Any]:
    """The verdict and every item, with percentages from 0 to 100; null is unknown, for the reason in ``why``."""
    return {
        "verdict": gate.verdict,
        "counts": dict(gate.counts()),
        "items": [
            {
                **{name: getattr(item, name) for name in _AS_STATED},
                **{f"{name}_pct": _pct(getattr(item, name)) for name in ("change", "low", "high", "noise")},
                "limit_pct": _pct(item.limit) if item.relative else None,
                "limit": None if item.relative else item.limit,
                "launches": item.launches,
                "share_pct": _pct(item.share),
                "same_work": item.same_work,
            }
            for item in gate.items
        ],
        "notes": [note.text for note in gate.notes],
    }


def _pct(share: float | None) -> float | None:
    return None if share is None else 100 * share


def lines(gate: Gate) -> Iterator[str]:
    """A line for each item that was judged or has no counterpart, then the notes and the verdict."""
    shown = [item for item in gate.items if item.status != "ignored"]
    width = max((len(_item_name(item)) for item in shown), default=0)
    for item in shown:
        yield _tame(f"{item.status.upper():12} {_item_name(item):{width}}  {_times(item)}{item.why}")
    for note in gate.notes:
        yield _tame(f"note: {note.text}")
    left_out = len(gate.items) - len(shown)
    yield f"{gate.verdict}: {_count_states(gate)}" + (f"; {left_out} kernels not judged" if left_out else "")


def _item_name(item: Item) -> str:
    name = visible(short(item.name))
    return f"{name}: {item.metric}" if item.metric else name


def _times(item: Item) -> str:
    if item.metric or item.baseline is None or item.candidate is None:
        return ""
    interval = f" (95 % interval {between})" if (between := _interval(item)) else ""
    return f"{short_time(item.baseline, 4)} -> {short_time(item.candidate, 4)}{interval}: "


def _interval(item: Item) -> str:
    return "" if item.low is None or item.high is None else f"{100 * item.low:+.2f} to {100 * item.high:+.2f} %"


def _count_states(gate: Gate) -> str:
    counts = gate.counts()
    return ", ".join(f"{counts[s]} {s}" for s in ("fail", "inconclusive", "pass", "new", "vanished") if counts.get(s))


def _tame(text: str) -> str:
    """A line that GitHub's runner cannot interpret as a command."""
    return inert(text.replace("\n", " ")).replace("##[", "# #[")


def markdown(gate: Gate, title: str) -> str:
    """The Markdown summary: the verdict, a table of the judged items, and the notes."""
    out = [f"## {_ICONS[gate.verdict]} {_plain(title)}: {gate.verdict}", "", _count_states(gate), ""]
    out += ["| | kernel | baseline | candidate | change | 95 % interval | limit | why |"]
    out += ["|---|---|--:|--:|--:|--:|--:|---|"]
    shown = [item for item in gate.items if item.status != "ignored"]
    out += [_row(item) for item in shown[:_ROWS]]
    if len(shown) > _ROWS:
        out += ["", f"and {len(shown) - _ROWS} more."]
    out += ["", *(f"- {_plain(note.text)}" for note in gate.notes)]
    return "\n".join(out).rstrip() + "\n"


def _row(item: Item) -> str:
    in_time = item.metric is None
    values = [
        "" if value is None else short_time(value, 4) if in_time else f"{value:.6g} {_plain(item.unit)}"
        for value in (item.baseline, item.candidate)
    ]
    change = "" if item.change is None else f"{100 * item.change:+.2f} %"
    limit = f"{100 * item.limit:g} %" if item.limit is not None and in_time else ""
    name = _code(short(item.name)) + (f" {_code(item.metric)}" if item.metric else "")
    cells = [f"{_ICONS[item.status]} {item.status}", name, *values, change, _interval(item), limit, _plain(item.why)]
    return f"| {' | '.join(cells)} |"


def _code(name: str) -> str:
    """A name as a code span, with a fence that is longer than any in the name, so that no markup in it has an effect.

    A backslash is replaced by another character, because before a bar it could end a cell of a table.
    """
    text = shorten(visible(name), _LONGEST).replace("\\", "⧵").replace("|", "\\|").strip()
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence} {text} {fence}" if text else "(no name)"


def _plain(text: str) -> str:
    """Text with markup, links, mentions and references escaped."""
    return shorten(inert(visible(text)), _LONGEST).replace("&lt;", "<").translate(_ACTIVE).replace("\\<", "&lt;")
