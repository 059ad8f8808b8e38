"""Parse the output formats of perf stat (text, CSV and JSON) into runs of events."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ....analysis.base.problems import BadInput
from ...base.untrusted_text import decimal
from ..merging.wording import refusal
from ..parsing.module_data import module_data

_MODIFIER = re.compile(r"(?<=[^:/]):[ukhIGHpPSDWeb]{1,8}$|(?<=/)[ukhIGHpPSDWeb]{1,8}$")
DURATION = "duration_time"
"""perf's event for the elapsed time, in ns; user_time and system_time are its parts on the CPU."""

WHOLE = 100.0
"""The share, in %, of an event that was counted all the time."""


@dataclass
class PerfEvent:
    """One counted event: its value in base units, or None if perf could not count it (``reason`` in perf's words)."""

    name: str
    value: float | None
    reason: str = ""
    running_pct: float | None = None
    """Share of the time in which it was actually counted; the value is scaled up accordingly."""
    error_pct: float | None = None
    """Standard error of the mean, if the value is a mean over repeated runs (-r)."""


@dataclass
class PerfRun:
    """One run of the program, or the mean of ``repeats`` runs."""

    events: list[PerfEvent] = field(default_factory=list)
    command: str | None = None
    repeats: int = 1
    unknown_units: set[str] = field(default_factory=set)
    follows_cpus: bool = False
    """Whether processors were counted, not the tasks of a program: the whole system, or a list of processors."""

    names: set[str] = field(default_factory=set)
    """Names of its events."""

    @property
    def duration_ns(self) -> float | None:
        """Elapsed time; the text format always has it, the others only as an event."""
        return next((e.value for e in self.events if e.name == DURATION), None)

    def add(self, event: PerfEvent, unit: str) -> None:
        """Add an event whose value is in ``unit``; a repeated event is ignored."""
        factor = 1.0 if not unit else module_data(__file__, "units.toml").get(unit)
        if factor is None:
            self.unknown_units.add(unit)
        elif event.value is not None:
            event.value *= factor
        if event.name not in self.names:
            self.names.add(event.name)
            self.events.append(event)


def plain_names(runs: Iterable[PerfRun]) -> dict[str, str]:
    """Return event as requested -> counter: the event without its modifier (``cycles:u`` -> ``cycles``).

    If an event was counted with several modifiers, or with and without one, each keeps its modifier.
    """
    spelled = defaultdict(set)
    for run in runs:
        for event in run.events:
            spelled[_MODIFIER.sub("", event.name)].add(event.name)
    return {name: bare if len(names) == 1 else name for bare, names in spelled.items() for name in names}


_MARK = "Performance counter stats for"
_HEADER = re.compile(_MARK + r" (?P<what>.*?)(?: \((?P<runs>\d{1,9}) runs\))?:\s*$")
_OF_CPUS = ("'system wide", "'CPU(s)")
_SPACES = " \u00a0\u202f"  # separators of digit groups, by locale
_VALUE = rf"(?P<value><not supported>|<not counted>|-?\d+(?:[.,'’{_SPACES}]\d{{3}})*(?:[.,]\d+)?)"
_EVENT = re.compile(rf"^\s*{_VALUE}[{_SPACES}]+(?P<rest>[^\s#(].*)$")
_ELAPSED = re.compile(
    r"^\s*(?P<value>\d+[.,]?\d*)(?: \+- (?P<error>\S+))? seconds (?P<what>time elapsed|user|sys)\b(?P<rest>.*)$"
)
_PLACED_LINE = re.compile(r"^\s*(?:CPU\d+|S\d+(?:-D\d+)?(?:-C\d+)?|N\d+|D\d+|P\d+)\s+\S")
_INTERVALS = re.compile(r"^#\s+time\s+counts\s+unit\s+events", re.MULTILINE)
_ERROR = re.compile(r"\( ?\+- *(?P<value>[\d.,]+) ?%")
_RUNNING = re.compile(r"\((?P<value>[\d.,]+)%\)\s*$")
_PARTS = {"time elapsed": DURATION, "user": "user_time", "sys": "system_time"}
_NS_PER_S = 1e9
_DIGITS, _TEXT = 400, 1000
_NO_NUMBER = "its number could not be read"


def is_text(text: str) -> bool:
    """Return whether ``text`` is the text report of perf stat."""
    return _MARK in text or _INTERVALS.search(text) is not None


def read_text(name: str, text: str) -> list[PerfRun]:
    """Return the runs in ``text``. Raises BadInput for counts per CPU, socket or interval, which are not runs."""
    runs = []
    for header, lines in _blocks(name, text):
        run = PerfRun(repeats=int(header["runs"] or 1), follows_cpus=header["what"].startswith(_OF_CPUS))
        # A process that was already running, or the whole system, has no command.
        if not run.follows_cpus and (quoted := re.fullmatch("'(.*)'", header["what"])):
            run.command = quoted[1]
        # Comma or point, as in the line of the elapsed time, which always has a fraction.
        elapsed = (re.search(r"\d([.,])\d+(?: \+- \S+)? seconds time elapsed", line) for line in lines)
        mark = next((match[1] for match in elapsed if match), ".")
        for line in lines:
            if match := _ELAPSED.match(line):
                _add_time(run, match, mark)
            elif match := _EVENT.match(line):
                _add_event(run, match, mark)
        runs.append(run)
    return runs


def _blocks(name: str, text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    header = None
    lines: list[str] = []
    for line in text.splitlines():
        if _PLACED_LINE.match(line) and header:
            raise no_totals_problem(name, "per CPU, core, socket or node", "-A and --per-...")
        if _INTERVALS.match(line):
            raise no_totals_problem(name, "per interval", "-I")
        if match := _HEADER.search(line):
            if header:
                yield header, lines
            header, lines = match, []
        else:
            lines.append(line)
    if header:
        yield header, lines


def no_totals_problem(name: str, how: str, option: str) -> BadInput:
    """Return the error for counts that are not totals of a run."""
    return refusal("no_totals", name=name, how=how, option=option)


def _number(text: str, mark: str) -> float | None:
    """Parse a number in a locale's notation; None if the text is not a number."""
    return decimal("".join("." if c == mark else c for c in text if c.isdigit() or c in (mark, "-")))


def _add_time(run: PerfRun, match: re.Match[str], mark: str) -> None:
    seconds = _number(match["value"], mark)
    event = PerfEvent(_PARTS[match["what"]], None if seconds is None else seconds * _NS_PER_S)
    if error := _ERROR.search(match["rest"]):
        event.error_pct = _number(error["value"], mark)
    run.add(event, "")


def _add_event(run: PerfRun, match: re.Match[str], mark: str) -> None:
    rest = match["rest"]
    error, running = _ERROR.search(rest), _RUNNING.search(rest)
    words = re.split(r"#|\( ?\+-|\([\d.,]+%\)", rest)[0].split()
    unit = words.pop(0) if len(words) > 1 and words[0] in module_data(__file__, "units.toml") else ""
    if len(words) == 2 and words[1] == "(msec)":  # perf before 4.14 prints the unit after the event
        unit = "msec"
        words.pop()
    if len(words) != 1:
        return
    missing = match["value"].startswith("<")
    run.add(
        PerfEvent(
            words[0],
            None if missing else _number(match["value"], mark),
            match["value"].strip("<>") if missing else _NO_NUMBER,
            _number(running["value"], mark) if running else WHOLE,  # the text omits 100 %
            _number(error["value"], mark) if error else None,
        ),
        unit,
    )


_SEPARATORS = ",;|\t:^"
_STARTED = "# started on"
_PLACES = {"cpu", "core", "socket", "die", "node", "thread", "cluster", "cache", "aggregate-number"}


def looks_like_table(line: str) -> bool:
    """Return whether a line has the format of -x: a value, an event, and how long it was counted."""
    return any(_row(s).fullmatch(line) or _placed_row(s).match(line) for s in _SEPARATORS)


def looks_like_json(line: str) -> bool:
    """Return whether a line has the format of -j."""
    return line.lstrip().startswith("{") and '"counter-value"' in line and '"event"' in line


def read_table(name: str, text: str) -> list[PerfRun]:
    """Return the runs in separated values; a new run starts at its header, or when an event is repeated.

    Raises BadInput for counts per CPU, socket or interval.
    """
    lines = text.splitlines()
    separator = next(s for line in lines for s in _SEPARATORS if _row(s).fullmatch(line) or _placed_row(s).match(line))
    row, placed, runs = _row(separator), _placed_row(separator), [PerfRun()]
    for line in lines:
        if line.startswith(_STARTED):
            runs.append(PerfRun())
        elif match := row.fullmatch(line):
            value, running, error = (
                decimal((match[part] or "").replace(",", ".")) for part in ("value", "running", "error")
            )
            reason = match["value"].strip("<>") if match["value"].startswith("<") else _NO_NUMBER
            event = PerfEvent(match["event"], value, reason, running, error)
            _place(runs, event, match["unit"], repeated=match["error"] is not None)
        elif placed.match(line):
            raise no_totals_problem(name, "per CPU, socket or interval", "-A, --per-... and -I")
    return [run for run in runs if run.events]


def read_json(name: str, text: str) -> list[PerfRun]:
    """Return the runs in lines of JSON; a new run starts at its header, or when an event is repeated."""
    runs = [PerfRun()]
    for line in text.splitlines():
        if line.startswith(_STARTED):
            runs.append(PerfRun())
            continue
        try:
            entry = json.loads(line) if looks_like_json(line) else {}
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict) or "event" not in entry:
            continue
        if _PLACES & entry.keys():
            raise no_totals_problem(name, "per CPU, core, socket or node", "-A and --per-...")
        if "interval" in entry:
            raise no_totals_problem(name, "per interval", "-I")
        value = _float(entry.get("counter-value"))
        reason = "" if value is not None else _text(entry.get("counter-value")).strip("<>")
        event = PerfEvent(
            _text(entry["event"]), value, reason, _float(entry.get("pcnt-running")), _float(entry.get("variance"))
        )
        _place(runs, event, _text(entry.get("unit") or ""), repeated="variance" in entry)
    return [run for run in runs if run.events]


def _place(runs: list[PerfRun], event: PerfEvent, unit: str, *, repeated: bool) -> None:
    """Add an event to the last run, or to a new one if the last run already has it.

    These formats do not state how often the program ran; repeated runs only show in the error.
    """
    if event.name in runs[-1].names:
        runs.append(PerfRun())
    runs[-1].add(event, unit)
    if repeated:
        runs[-1].repeats = 0


def _text(value: Any) -> str:
    """Return a text of the file, without lone surrogates."""
    return str(value)[:_TEXT].encode("utf-8", "replace").decode()


def _float(value: Any) -> float | None:
    """Return the number of a member, which perf writes as text or as a number; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    parsed = decimal(value if isinstance(value, str) else repr(value)[:_DIGITS])
    return parsed if parsed is not None and math.isfinite(parsed) else None


def _row(s: str) -> re.Pattern[str]:
    """Return the pattern of a row: value, unit, event, [error], time counted in ns, its share in %, [figure, unit]."""
    s, mark = re.escape(s), r"\." if s == "," else "[.,]"
    number = rf"\d+(?:{mark}\d+)?"
    return re.compile(
        rf"\s*(?P<value>-?{number}|<not supported>|<not counted>){s}(?P<unit>[A-Za-z%/]{{0,12}}){s}"
        rf"(?P<event>[A-Za-z][^{s}/\s]*(?:/[^/]*/[^{s}\s]*)?){s}(?:(?P<error>{number})%{s})?"
        rf"\d+{s}(?P<running>\d{{1,3}}{mark}\d\d)(?:{s}.*)?"
    )


def _placed_row(s: str) -> re.Pattern[str]:
    """Return the pattern of a row that starts with a place (CPU0, S0 and a count) or a time."""
    s, value = re.escape(s), r"(?:\d|<not )"
    return re.compile(
        rf"\s*(?:CPU\d+{s}|[SNDP]\d+(?:-[DC]\d+)*{s}\d+{s}|\d+\.\d{{9}}{s}){value}[^{s}]*{s}[A-Za-z%]*{s}[a-z]"
    )
