"""Checks answers given as text: a number with unit, a name, yes or no, several names, or "unknown"."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Check = Literal["number", "name", "yes_no", "names", "untold"]
UNTOLD = "cannot be told"
TOLERANCE = 0.01
"""Relative tolerance for numbers, unless the question states its own."""

_SCALE = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_UNITS: dict[str, tuple[str, float]] = {
    **{name: ("time", factor) for name, factor in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))},
    **{f"{p}b": ("bytes", f) for p, f in _SCALE.items()},
    **{f"{p}b/s": ("bytes/s", f) for p, f in _SCALE.items()},
    **{f"{p}{i}b": ("bytes", 1024.0**n) for n, (p, i) in enumerate((("", ""), ("k", "i"), ("m", "i"), ("g", "i")))},
    **{f"{p}flop": ("flop", f) for p, f in _SCALE.items()},
    **{f"{p}flop/s": ("flop/s", f) for p, f in _SCALE.items()},
    **{f"{p}flops": ("flop/s", f) for p, f in _SCALE.items()},
    **{f"{p}hz": ("frequency", f) for p, f in _SCALE.items()},
    "bytes": ("bytes", 1.0),
    "byte": ("bytes", 1.0),
    "µs": ("time", 1e-6),
    "%": ("share", 0.01),
    "percent": ("share", 0.01),
}
_NUMBER = re.compile(r"[-+]?(?:\d[\d,_]*\d|\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?")
_MARKED = re.compile(r"[^\w\s]*\s?answer[^\w\s:]*:(.*)", re.IGNORECASE)
_LONGEST_ANSWER = 2000


@dataclass(frozen=True)
class Truth:
    """The correct answer. ``answer`` is a number, text, bool, list of texts, or None if the data does not determine it.

    ``unit`` is the unit of the number; other units of the same kind are converted. ``also`` lists accepted names.
    """

    check: Check
    answer: Any = None
    unit: str | None = None
    tolerance: float = TOLERANCE
    also: tuple[str, ...] = ()


def said(text: str) -> str | None:
    """The text after the last "ANSWER:" of a reply; None if there is none."""
    for line in reversed(text.splitlines()):
        if (found := _MARKED.match(line.strip()[:_LONGEST_ANSWER])) and (
            answer := found[1].strip().strip("*`").strip()
        ):
            return answer
    return None


def gives_up(answer: str) -> bool:
    """Whether the answer says that the data does not determine it."""
    return _plain(answer).startswith(UNTOLD)


def right(answer: str, truth: Truth) -> bool:
    """Whether an answer is correct."""
    if truth.check == "untold" or gives_up(answer):
        return truth.check == "untold" and gives_up(answer)
    if truth.check == "number":
        given = _number(answer, truth.unit)
        return given is not None and math.isclose(
            given, truth.answer, rel_tol=truth.tolerance, abs_tol=0 if truth.answer else truth.tolerance
        )
    if truth.check == "yes_no":
        return _yes(answer) is truth.answer
    if truth.check == "names":
        return {_name(n) for n in _listed(answer)} == {_name(n) for n in truth.answer}
    return _name(answer) in {_name(n) for n in (truth.answer, *truth.also)}


def _number(answer: str, unit: str | None) -> float | None:
    """The first number of an answer in the question's unit; None if there is none, or its unit is of another kind."""
    found = next((m for m in _NUMBER.finditer(answer) if any(c.isdigit() for c in m[0])), None)
    if found is None:
        return None
    value = float(re.sub(r"[,_]", "", found[0]))
    words = answer[found.end() :].replace("per second", "/s").split()
    given = words[0].strip("().,;*`").casefold() if words else ""
    wanted = _UNITS.get((unit or "").casefold())
    other = _UNITS.get(given)
    if not wanted or not other:
        # An unknown or missing unit is assumed to be the requested one.
        return value
    if wanted[0] != other[0]:
        return None
    return value * other[1] / wanted[1]


def _yes(answer: str) -> bool | None:
    first = re.match(r"[a-z]+", _plain(answer))
    return {"yes": True, "true": True, "no": False, "false": False}.get(first[0] if first else "")


def _listed(answer: str) -> Sequence[str]:
    try:
        stated = json.loads(answer)
    except ValueError:
        # Commas within parameter lists and templates do not separate names.
        return [part for part in re.split(r",(?![^(<]*[)>])|;|\band\b", answer) if part.strip()]
    return [str(part) for part in stated] if isinstance(stated, list) else [str(stated)]


def _name(text: str) -> str:
    """Normalise a name: quotes, return type and parameters of a kernel are optional."""
    plain = _plain(text).removeprefix("void ")
    return re.sub(r"\s*\(.*$", "", plain).strip()


def _plain(text: str) -> str:
    return text.strip().strip("\"'`*.").strip().casefold()
