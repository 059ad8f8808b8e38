"""Properties of an AMD instruction from its text: its class, its branch target, and what a wait waits for.

The text is as LLVM writes it, in the disassembly of a code object and in the samples of rocprofv3.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pydantic

from ...analysis.base.database import sql_literal
from ...analysis.catalogue import files

_BRANCH = re.compile(r"(?:s_branch|s_cbranch_\w+|s_call_b64 s\[\d+:\d+\],)\s+(\d{1,5}|0x[0-9a-f]{1,4})\b")
_WAIT = re.compile(r"(\w+cnt)\((\d{1,3})\)")
_NUMBER = re.compile(r"\b(0x[0-9a-f]{1,4}|\d{1,5})\b")
_LEAVES = ("s_branch", "s_endpgm", "s_setpc")
"""Instructions after which execution never continues with the next instruction."""
_FIXED = re.compile(
    r"(?:scratch|buffer)_(?P<way>load|store)_\w+ (?:off, v\S+|v(?:\d+|\[\d+:\d+\]), off), (?:s\[\d+:\d+\], |off\b|s\d+)"
)
_TARGET_FAR = 1 << 15
_WORD = 4
_STEPS, _STEPS_OF_ALL = 20_000, 1_000_000
"""Number of instructions that are searched backwards for one wait, and for all waits of a kernel."""
_RETURNS = re.compile(r"\b(?:glc|sc0|th:TH_ATOMIC_RETURN)\b")


@dataclass(frozen=True)
class WaitCounter:
    """A counter of pending memory operations that a wave can wait for."""

    name: str
    starts: tuple[str, ...]
    in_order: bool
    stores: bool | None = None
    """Whether only stores count (True), or only other operations (False); None for both."""
    only_loads_on: tuple[str, ...] = ()
    """Prefixes of targets on which stores have a separate counter."""
    ordered: tuple[str, ...] = ()
    """Prefixes of operations that end in order among themselves, if the counter as a whole is not in order."""

    def counts(self, text: str, gpu: str) -> bool:
        """Return whether an instruction increments the counter."""
        if not text.startswith(self.starts) or class_of(text) == "fence":
            return False
        stores = False if self.only_loads_on and gpu.startswith(self.only_loads_on) else self.stores
        name = text.partition(" ")[0]
        returns_nothing = "_store" in name or ("_atomic" in name and not _RETURNS.search(text))
        return stores is None or stores == returns_nothing


@dataclass(frozen=True)
class AmdInstruction:
    """One instruction of a kernel."""

    offset: int
    """Its address in the code object."""
    size: int
    """Size in bytes."""
    text: str


@dataclass(frozen=True)
class _InstructionClass:
    name: str
    starts: tuple[str, ...]
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class _IsaTables:
    classes: tuple[_InstructionClass, ...]
    counters: dict[str, WaitCounter]
    """By name."""


@cache
def _data() -> _IsaTables:
    table = files.load(Path(__file__).with_suffix(".toml"))
    counters = {one["name"]: one for one in table["counter"]}
    return pydantic.TypeAdapter(_IsaTables).validate_python({"classes": table["class"], "counters": counters})


def class_of(text: str) -> str | None:
    """Return the class of an instruction (isa.toml); None if the text is not an instruction."""
    for one in _data().classes:
        if text.startswith(one.starts) and (not one.holds or any(part in text for part in one.holds)):
            return one.name
    return None


def class_sql(text: str) -> str:
    """Return ``class_of`` as SQL over an expression."""
    cases = []
    for one in _data().classes:
        fits = " OR ".join(f"starts_with({text}, {sql_literal(start)})" for start in one.starts)
        holds = " OR ".join(f"contains({text}, {sql_literal(part)})" for part in one.holds) or "true"
        cases.append(f"WHEN ({fits}) AND ({holds}) THEN {sql_literal(one.name)}")
    return f"CASE {' '.join(cases)} END"


def at_fixed_place(text: str) -> str | None:
    """Return the class of a scratch access at an address that is the same for all lanes; None for anything else.

    Spilled registers are accessed in this way, before gfx940 also through a buffer.
    """
    match = _FIXED.match(text)
    return f"scratch_{match['way']}" if match else None


def target_of(offset: int, text: str) -> int | None:
    """Return the target of a direct branch; None for anything else.

    The distance is in words from the next instruction, as a 16-bit two's complement number.
    """
    if (match := _BRANCH.match(text)) is None:
        return None
    words = int(match[1], 0) & 0xFFFF
    return offset + _WORD + _WORD * (words - 2 * _TARGET_FAR if words >= _TARGET_FAR else words)


def waits_of(text: str) -> dict[str, int]:
    """Return counter -> number of operations that may still be pending after a wait; empty if it is not a wait."""
    if class_of(text) != "wait":
        return {}
    known = _data().counters
    name, _, rest = text.partition(" ")
    if own := [part for part in name.split("_") if part in known]:
        # One wait for two counters contains both, the first in the upper byte.
        number = _NUMBER.search(rest)
        value = int(number[1], 0) if number else 0
        shifts = range(8 * (len(own) - 1), -1, -8)
        return {c: (value >> s) & 0xFF if len(own) > 1 else value for c, s in zip(own, shifts, strict=True)}
    return {m[1]: int(m[2]) for m in _WAIT.finditer(rest) if m[1] in known}


def producers(code: Sequence[AmdInstruction], gpu: str) -> dict[int, list[int]]:
    """Return the offset of every wait -> offsets of the operations that it waits for, one for each path to the wait.

    ``code`` is a kernel in the order of addresses. Operations of an ordered counter end in the order of issue, so a
    wait that leaves n pending waits for the one before the last n. For an unordered counter, only a wait for all is
    exact, and the newest operation represents them; or any wait, if all pending operations end in order among
    themselves.
    """
    flow = _Flow(code)
    offsets_of_wait: dict[int, set[int]] = {}
    waits = {i: waits_of(one.text) for i, one in enumerate(code)}
    for name in {name for wait in waits.values() for name in wait}:
        counter = _data().counters[name]
        counted = {i for i, one in enumerate(code) if counter.counts(one.text, gpu)}
        allowed = {i: wait[name] for i, wait in waits.items() if name in wait}
        for i, still in allowed.items():
            if counter.in_order or not still or counter.ordered:
                strict = still and not counter.in_order
                unknown = {n for n in counted if not code[n].text.startswith(counter.ordered)} if strict else set()
                places = flow.before(i, still, counted, allowed, unknown)
                offsets_of_wait.setdefault(code[i].offset, set()).update(code[place].offset for place in places)
    return {offset: sorted(places) for offset, places in offsets_of_wait.items() if places}


class _Flow:
    """The paths through a kernel, followed backwards."""

    def __init__(self, code: Sequence[AmdInstruction]) -> None:
        places = {one.offset: i for i, one in enumerate(code)}
        self._steps = _STEPS_OF_ALL
        self._into: dict[int, list[int]] = {}
        self._ends = {i for i, one in enumerate(code) if one.text.startswith(_LEAVES)}
        for i, one in enumerate(code):
            target = target_of(one.offset, one.text)
            if target is not None and (place := places.get(target)) is not None:
                self._into.setdefault(place, []).append(i)

    def before(
        self, start: int, still: int, counted: set[int], waits: Mapping[int, int], unknown: Set[int] = frozenset()
    ) -> list[int]:
        """Return, for each path back from ``start``, the counted instruction followed by ``still`` other counted ones.

        A path ends at an earlier wait that already waited for it, and at an ``unknown`` instruction, whose end cannot
        be determined.
        """
        waiting, seen, places = deque([(start, still)]), {(start, still)}, []
        while waiting and len(seen) < _STEPS and self._steps > 0:
            at, after = waiting.popleft()
            self._steps -= 1
            for place in self._into.get(at, []) + ([at - 1] if at and at - 1 not in self._ends else []):
                if place in unknown:
                    continue
                if place in counted and not after:
                    places.append(place)
                    continue
                if place in waits and after >= waits[place]:
                    continue
                step = (place, after - (place in counted))
                if step not in seen:
                    seen.add(step)
                    waiting.append(step)
        return places
