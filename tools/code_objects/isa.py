"""What an AMD instruction is, by its text: its class, where it branches to, and which operation a wait waits for.

The text is as LLVM writes it, in a code object's disassembly and in what rocprofv3 writes beside its samples.
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...analysis.base.database import sql_literal

_BRANCH = re.compile(r"(?:s_branch|s_cbranch_\w+|s_call_b64 s\[\d+:\d+\],)\s+(\d{1,5}|0x[0-9a-f]{1,4})\b")
_WAIT = re.compile(r"(\w+cnt)\((\d{1,3})\)")
_NUMBER = re.compile(r"\b(0x[0-9a-f]{1,4}|\d{1,5})\b")
_LEAVES = ("s_branch", "s_endpgm", "s_setpc")
"""What is never followed by the next instruction."""
_FIXED = re.compile(
    r"(?:scratch|buffer)_(?P<way>load|store)_\w+ (?:off, v\S+|v(?:\d+|\[\d+:\d+\]), off), (?:s\[\d+:\d+\], |off\b|s\d+)"
)
_TARGET_FAR = 1 << 15
_WORD = 4
_STEPS, _STEPS_OF_ALL = 20_000, 1_000_000
"""Instructions that are walked back over for one wait, and for all waits of a kernel."""
_RETURNS = re.compile(r"\b(?:glc|sc0|th:TH_ATOMIC_RETURN)\b")


@dataclass(frozen=True)
class WaitCounter:
    """A counter of memory operations under way that a wave can wait on."""

    name: str
    starts: tuple[str, ...]
    in_order: bool
    stores: bool | None
    """Whether only stores count, or only what is no store; None for both."""
    only_loads_on: tuple[str, ...]
    """How targets begin on which stores have a counter of their own."""
    ordered: tuple[str, ...] = ()
    """How the names of those begin that end in order among themselves, of a counter that is not in order."""

    def counts(self, text: str, gpu: str) -> bool:
        """Whether an instruction raises it."""
        if not text.startswith(self.starts) or class_of(text) == "fence":
            return False
        stores = False if self.only_loads_on and gpu.startswith(self.only_loads_on) else self.stores
        return stores is None or stores == _writes_only(text)


@dataclass(frozen=True)
class AmdInstruction:
    """One instruction of a kernel."""

    offset: int
    """Its address in the code object."""
    size: int
    """Bytes."""
    text: str


@dataclass(frozen=True)
class _InstructionClass:
    name: str
    starts: tuple[str, ...]
    holds: tuple[str, ...]


@dataclass(frozen=True)
class _IsaTables:
    classes: tuple[_InstructionClass, ...]
    counters: dict[str, WaitCounter]


@cache
def _data() -> _IsaTables:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    classes = (
        _InstructionClass(one["name"], tuple(one["starts"]), tuple(one.get("holds", ()))) for one in table["class"]
    )
    counters = (
        WaitCounter(
            one["name"],
            tuple(one["starts"]),
            one["in_order"],
            one.get("stores"),
            tuple(one.get("only_loads_on", ())),
            tuple(one.get("ordered", ())),
        )
        for one in table["counter"]
    )
    return _IsaTables(tuple(classes), {one.name: one for one in counters})


def class_of(text: str) -> str | None:
    """The class of an instruction (isa.toml); None of what is none."""
    for one in _data().classes:
        if text.startswith(one.starts) and (not one.holds or any(part in text for part in one.holds)):
            return one.name
    return None


def class_sql(text: str) -> str:
    """``class_of`` as SQL over an expression."""
    cases = []
    for one in _data().classes:
        fits = " OR ".join(f"starts_with({text}, {sql_literal(start)})" for start in one.starts)
        holds = " OR ".join(f"contains({text}, {sql_literal(part)})" for part in one.holds) or "true"
        cases.append(f"WHEN ({fits}) AND ({holds}) THEN {sql_literal(one.name)}")
    return f"CASE {' '.join(cases)} END"


def at_fixed_place(text: str) -> str | None:
    """The class of an access to scratch at an address that is the same for all lanes, as that of a spilled register
    is: also through a buffer, as before gfx940. None of everything else."""
    match = _FIXED.match(text)
    return f"scratch_{match['way']}" if match else None


def target_of(offset: int, text: str) -> int | None:
    """Where a direct branch leads; None of everything else.

    The distance is in words from the instruction behind it, in two's complement of 16 bits.
    """
    if (match := _BRANCH.match(text)) is None:
        return None
    words = int(match[1], 0) & 0xFFFF
    return offset + _WORD + _WORD * (words - 2 * _TARGET_FAR if words >= _TARGET_FAR else words)


def waits_of(text: str) -> dict[str, int]:
    """Counter -> how many operations may still be under way behind a wait; empty of what is no wait."""
    if class_of(text) != "wait":
        return {}
    known = _data().counters
    name, _, rest = text.partition(" ")
    if own := [part for part in name.split("_") if part in known]:
        # One wait for two counters holds both, the first in the upper byte.
        number = _NUMBER.search(rest)
        value = int(number[1], 0) if number else 0
        shifts = range(8 * (len(own) - 1), -1, -8)
        return {c: (value >> s) & 0xFF if len(own) > 1 else value for c, s in zip(own, shifts, strict=True)}
    return {m[1]: int(m[2]) for m in _WAIT.finditer(rest) if m[1] in known}


def producers(code: Sequence[AmdInstruction], gpu: str) -> dict[int, list[int]]:
    """Offset of every wait -> offsets of the operations whose end it awaits, one for each way that leads there.

    ``code`` is a kernel in the order of addresses. Operations of an ordered counter end as they were issued: a wait
    that lets n go on ends with the one before the last n. Of an unordered counter only a wait for all can be told,
    and the newest stands for them; or any wait, where all under way end in order among themselves.
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
    """The ways through a kernel, backwards."""

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
        """On each way back from ``start`` the instruction that counts and has ``still`` others that count behind it.

        A way ends at an earlier wait that already awaited it, and at an ``unknown`` one, whose end nobody can tell.
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


def _writes_only(text: str) -> bool:
    """Whether a memory operation returns nothing."""
    name = text.partition(" ")[0]
    return "_store" in name or ("_atomic" in name and not _RETURNS.search(text))
