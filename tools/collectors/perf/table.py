"""The forms of perf stat for programs: separated values (-x) and JSON (-j), an event per line."""

from __future__ import annotations

import json
import re
from typing import Any

from .runs import Event, Run
from .text import grouped

_SEPARATORS = ",;|\t:^"
_STARTED = "# started on"
_PLACES = {"cpu", "core", "socket", "die", "node", "thread", "cluster", "cache", "aggregate-number"}


def looks_like_table(line: str) -> bool:
    """Whether a line is one of the form -x: a value, an event, and how long it was counted."""
    return any(_row(s).fullmatch(line) or _placed(s).match(line) for s in _SEPARATORS)


def looks_like_json(line: str) -> bool:
    """Whether a line is one of the form -j."""
    return line.lstrip().startswith("{") and '"counter-value"' in line and '"event"' in line


def read_table(name: str, text: str) -> list[Run]:
    """The runs in separated values; a new run starts where the file says so, or where an event comes again.

    Raises BadInput for counts per CPU, socket or interval.
    """
    lines = text.splitlines()
    separator = next(s for line in lines for s in _SEPARATORS if _row(s).fullmatch(line) or _placed(s).match(line))
    row, placed, runs = _row(separator), _placed(separator), [Run()]
    for line in lines:
        if line.startswith(_STARTED):
            runs.append(Run())
        elif match := row.fullmatch(line):
            value, missing = match["value"], match["value"].startswith("<")
            event = Event(
                match["event"],
                None if missing else float(value.replace(",", ".")),
                value.strip("<>") if missing else "",
                float(match["running"].replace(",", ".")),
                float(match["error"].replace(",", ".")) if match["error"] else None,
            )
            _place(runs, event, match["unit"], repeated=match["error"] is not None)
        elif placed.match(line):
            raise grouped(name, "per CPU, socket or interval", "-A, --per-... and -I")
    return [run for run in runs if run.events]


def read_json(name: str, text: str) -> list[Run]:
    """The runs in lines of JSON; a new run starts where the file says so, or where an event comes again."""
    runs = [Run()]
    for line in text.splitlines():
        if line.startswith(_STARTED):
            runs.append(Run())
            continue
        try:
            entry = json.loads(line) if looks_like_json(line) else {}
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict) or "event" not in entry:
            continue
        if _PLACES & entry.keys():
            raise grouped(name, "per CPU, core, socket or node", "-A and --per-...")
        if "interval" in entry:
            raise grouped(name, "per interval", "-I")
        value = _float(entry.get("counter-value"))
        reason = "" if value is not None else str(entry.get("counter-value")).strip("<>")
        event = Event(
            str(entry["event"]), value, reason, _float(entry.get("pcnt-running")), _float(entry.get("variance"))
        )
        _place(runs, event, str(entry.get("unit") or ""), repeated="variance" in entry)
    return [run for run in runs if run.events]


def _place(runs: list[Run], event: Event, unit: str, *, repeated: bool) -> None:
    """Add an event to the last run, or to a new one where it has it already. These forms do not say how often
    the program ran; that it ran several times shows only in the error."""
    if any(e.name == event.name for e in runs[-1].events):
        runs.append(Run())
    runs[-1].add(event, unit)
    if repeated:
        runs[-1].repeats = 0


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _row(s: str) -> re.Pattern[str]:
    """value, unit, event, [error], time counted in ns, share of it in %, [figure, its unit]."""
    s, mark = re.escape(s), r"\." if s == "," else "[.,]"
    number = rf"\d+(?:{mark}\d+)?"
    return re.compile(
        rf"\s*(?P<value>-?{number}|<not supported>|<not counted>){s}(?P<unit>[A-Za-z%/]{{0,12}}){s}"
        rf"(?P<event>[A-Za-z][^{s}/\s]*(?:/[^/]*/[^{s}\s]*)?){s}(?:(?P<error>{number})%{s})?"
        rf"\d+{s}(?P<running>\d{{1,3}}{mark}\d\d)(?:{s}.*)?"
    )


def _placed(s: str) -> re.Pattern[str]:
    """A row with a place (CPU0, S0 and a count) or a time before it."""
    s, value = re.escape(s), r"(?:\d|<not )"
    return re.compile(
        rf"\s*(?:CPU\d+{s}|[SNDP]\d+(?:-[DC]\d+)*{s}\d+{s}|\d+\.\d{{9}}{s}){value}[^{s}]*{s}[A-Za-z%]*{s}[a-z]"
    )
