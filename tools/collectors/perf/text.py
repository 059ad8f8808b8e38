"""The text that perf stat prints for people, in any locale: one block per run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....analysis.problems import BadInput
from .runs import DURATION, Event, Run, is_unit

_MARK = "Performance counter stats for"
_HEADER = re.compile(rf"{_MARK} (?P<what>.*?)(?: \((?P<runs>\d+) runs\))?:\s*$")
_SPACES = " \u00a0\u202f"  # between groups of digits, by locale
_VALUE = rf"(?P<value><not supported>|<not counted>|-?\d+(?:[.,'’{_SPACES}]\d{{3}})*(?:[.,]\d+)?)"
_EVENT = re.compile(rf"^\s*{_VALUE}[{_SPACES}]+(?P<rest>[^\s#(].*)$")
_ELAPSED = re.compile(
    r"^\s*(?P<value>\d+[.,]?\d*)(?: \+- (?P<error>\S+))? seconds (?P<what>time elapsed|user|sys)\b(?P<rest>.*)$"
)
_PLACED = re.compile(r"^\s*(?:CPU\d+|S\d+(?:-D\d+)?(?:-C\d+)?|N\d+|D\d+|P\d+)\s+\S")
_INTERVALS = re.compile(r"^#\s+time\s+counts\s+unit\s+events", re.MULTILINE)
_ERROR = re.compile(r"\( ?\+- *(?P<value>[\d.,]+) ?%")
_RUNNING = re.compile(r"\((?P<value>[\d.,]+)%\)\s*$")
_PARTS = {"time elapsed": DURATION, "user": "user_time", "sys": "system_time"}
_NS_PER_S = 1e9


def is_text(text: str) -> bool:
    """Whether perf stat printed ``text`` for people."""
    return _MARK in text or _INTERVALS.search(text) is not None


def read_text(name: str, text: str) -> list[Run]:
    """The runs in ``text``. Raises BadInput for counts per CPU, socket or interval, which are no runs."""
    runs = []
    for header, lines in _blocks(name, text):
        run = Run(command=_command(header["what"]), repeats=int(header["runs"] or 1))
        mark = _decimal_mark(lines)
        for line in lines:
            if match := _ELAPSED.match(line):
                _add_time(run, match, mark)
            elif match := _EVENT.match(line):
                _add_event(name, run, match, mark)
        runs.append(run)
    return runs


def _blocks(name: str, text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    header: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if _PLACED.match(line) and header:
            raise grouped(name, "per CPU, core, socket or node", "-A and --per-...")
        if _INTERVALS.match(line):
            raise grouped(name, "per interval", "-I")
        if match := _HEADER.search(line):
            if header:
                yield header, lines
            header, lines = match, []
        else:
            lines.append(line)
    if header:
        yield header, lines


def grouped(name: str, how: str, option: str) -> BadInput:
    """The refusal of counts that are no totals of a run."""
    return BadInput(
        f"{name} holds counts {how}",
        "a workload needs the totals of every run",
        f"Run perf stat again without {option}",
    )


def _command(what: str) -> str | None:
    """The command between its quotes; None for a process that ran already, or the whole system."""
    quoted = len(what) > 1 and what[0] == what[-1] == "'"
    return what[1:-1] if quoted and what != "'system wide'" and not what.startswith("'CPU(s)") else None


def _decimal_mark(lines: list[str]) -> str:
    """Comma or point, as the line of the elapsed time has it: it always has a fraction."""
    found = (re.search(r"\d([.,])\d+(?: \+- \S+)? seconds time elapsed", line) for line in lines)
    return next((match[1] for match in found if match), ".")


def _number(text: str, mark: str) -> float:
    return float("".join("." if c == mark else c for c in text if c.isdigit() or c in (mark, "-")))


def _add_time(run: Run, match: re.Match[str], mark: str) -> None:
    event = Event(_PARTS[match["what"]], _number(match["value"], mark) * _NS_PER_S)
    if error := _ERROR.search(match["rest"]):
        event.error_pct = _number(error["value"], mark)
    run.add(event, "")


def _add_event(name: str, run: Run, match: re.Match[str], mark: str) -> None:
    rest = match["rest"]
    error, running = _ERROR.search(rest), _RUNNING.search(rest)
    words = re.split(r"#|\( ?\+-|\([\d.,]+%\)", rest)[0].split()
    unit = words.pop(0) if len(words) > 1 and is_unit(words[0]) else ""
    if len(words) == 2 and words[1] == "(msec)":  # perf before 4.14 states the unit behind
        unit = "msec"
        words.pop()
    if len(words) != 1:
        return
    missing = match["value"].startswith("<")
    run.add(
        Event(
            words[0],
            None if missing else _number(match["value"], mark),
            match["value"].strip("<>") if missing else "",
            _number(running["value"], mark) if running else None,
            _number(error["value"], mark) if error else None,
        ),
        unit,
    )
