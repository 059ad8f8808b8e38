"""Analyse SASS as ncu prints it: the class of each instruction, its branch target, and the late results that it needs.

A load or a special function produces its result after a variable time, which the hardware tracks with a scoreboard. The
first instruction that reads or overwrites the register has to wait, so samples appear there and not at the load.
``analyse`` follows registers from these producers to their first readers, along all branches of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..parsing.module_data import module_data

_INSTRUCTION = re.compile(r"\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.[\w:&|]+)*)\s*(.*?)\s*;?\s*$")
_REGISTER = re.compile(r"\b(U?)R(\d{1,3})\b(\.64)?")
_ADDRESS = re.compile(r"\b0x([0-9a-f]{1,16})\b")
_LONG_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_STACK = re.compile(r"\[R1(?:\+-?0x[0-9a-f]+)?\]")
_ASYNC = "async"
"""Pseudo register for copies without a destination register, for which a later instruction waits by a counter."""
_BARRIER = "barrier"
"""Pseudo register for barriers: samples of waiting waves are at the instruction after it (observed on an H200)."""
_ROUNDS = 6
_MOST_NAMED = 6
_MOST_STEPS = 20_000_000
"""Limit on the steps of the analysis of one kernel, which takes some seconds; beyond it, results are not followed."""


@dataclass
class SassInstruction:
    """One instruction with its offset in bytes from the start of its kernel, and results of the analysis."""

    offset: int
    text: str
    opcode: str
    modifiers: frozenset[str]
    reads: frozenset[str]
    writes: frozenset[str]
    target: int | None = None
    waits_for: list[int] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Its class, one of those in analysis/hotspots/classes.toml."""
        kind: str = _data()["classes"].get(self.opcode, "salu" if self.opcode.startswith("U") else "valu")
        return kind

    @property
    def spill(self) -> bool | None:
        """Whether a local memory access is at a fixed stack offset, where registers are saved; else None."""
        if not self.kind.startswith("scratch"):
            return None
        return _STACK.search(self.text) is not None

    @property
    def is_late(self) -> bool:
        return self.opcode in _data()["late"]["opcodes"]


def analyse(code: Sequence[tuple[int, str]]) -> list[SassInstruction]:
    """Return the instructions of a kernel, given as address and text in the order of addresses."""
    base = code[0][0] if code else 0
    end = code[-1][0] if code else 0
    instructions = [_parse(address - base, text, (base, end)) for address, text in code]
    if instructions:
        _follow_results(instructions)
    return instructions


def _parse(offset: int, text: str, bounds: tuple[int, int]) -> SassInstruction:
    match = _INSTRUCTION.fullmatch(text[:2000])
    if not match:
        return SassInstruction(offset, text.strip(), "", frozenset(), frozenset(), frozenset())
    opcode, dotted, operands = match.groups()
    modifiers = frozenset(dotted.strip(".").split("."))
    reads, writes = _registers(opcode, modifiers, _operands(operands))
    relative_text = _LONG_ADDRESS.sub(lambda found: _relative(found, bounds), text[:2000]).strip().rstrip(" ;")
    one = SassInstruction(offset, relative_text, opcode, modifiers, frozenset(reads), frozenset(writes))
    if opcode in _data()["flow"]["jumps"] or opcode in _data()["flow"]["calls"]:
        inside = [int(a, 16) for a in _ADDRESS.findall(operands) if bounds[0] <= int(a, 16) <= bounds[1]]
        one.target = inside[-1] - bounds[0] if inside else None
    return one


def _relative(match: re.Match[str], bounds: tuple[int, int]) -> str:
    """Replace an address in the kernel by its offset, since load addresses differ in each run."""
    address = int(match[0], 16)
    return f"0x{address - bounds[0]:x}" if bounds[0] <= address <= bounds[1] else match[0]


def _operands(text: str) -> list[str]:
    """Split operands at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text else []


def _registers(opcode: str, modifiers: frozenset[str], operands: list[str]) -> tuple[set[str], set[str]]:
    """Return the registers read and written: the first register operand is written, unless it is a store."""
    reads = set()
    writes = set()
    store = opcode in _data()["stores"]["opcodes"]
    if opcode in ("LDGSTS", "UTMALDG", "UBLKCP"):
        writes.add(_ASYNC)
    if opcode in ("DEPBAR", "SYNCS") or (opcode == "WARPGROUP" and "DEPBAR" in modifiers):
        reads.add(_ASYNC)
    if opcode == "BAR" and "ARV" not in modifiers:
        writes.add(_BARRIER)
    for place, operand in enumerate(operands):
        plain = _REGISTER.match(operand)
        if plain and not writes and not store and place < 2 and "[" not in operand:
            writes |= set(_register_names(plain, _width(opcode, modifiers, of_result=True)))
            continue
        inside = "[" in operand
        for match in _REGISTER.finditer(operand):
            width = 2 if match[3] else 1 if inside else _width(opcode, modifiers, of_result=False)
            reads |= set(_register_names(match, width))
    return reads, writes


def _register_names(match: re.Match[str], width: int) -> Iterator[str]:
    kind = "UR" if match[1] else "R"
    return (f"{kind}{int(match[2]) + i}" for i in range(width))


def _width(opcode: str, modifiers: frozenset[str], *, of_result: bool) -> int:
    """Return the number of 32-bit registers of an operand; the maximum if operands differ."""
    if opcode.startswith("D") and opcode not in ("DEPBAR",):
        return 2
    if opcode.endswith("MMA"):
        return 4
    if "128" in modifiers or (opcode in ("LDSM", "STSM") and "4" in modifiers):
        return 4
    if "64" in modifiers or (opcode in ("LDSM", "STSM") and "2" in modifiers) or "F64" in modifiers:
        return 2
    if of_result and "WIDE" in modifiers:
        return 2
    return 1


# -- late results ------------------------------------------------------------------------------------

_State = dict[str, frozenset[int]]
"""Register -> list indexes of the instructions whose late result it may contain."""


def _follow_results(code: list[SassInstruction]) -> None:
    """Fill ``waits_for`` with the producers whose results may still be pending where an instruction needs them."""
    starts, following = _blocks(code)
    entering: dict[int, _State] = {start: {} for start in starts}
    waiting: dict[int, set[int]] = {}
    bounds = dict(zip(starts, [*starts[1:], len(code)], strict=True))
    todo = list(starts)
    steps = 0
    for _ in range(_ROUNDS):
        changed = set()
        for start in todo:
            state = dict(entering[start])
            for at in range(start, bounds[start]):
                steps += _step(code, at, state, waiting)
            for place in following[start]:
                steps += sum(map(len, state.values()))
                # The results that may be pending at the end of this block are so at the start of the next one.
                into = entering[place]
                for register, producers in state.items():
                    have = into.get(register, frozenset())
                    if not producers <= have:
                        into[register] = have | producers
                        changed.add(place)
            if steps > _MOST_STEPS:
                changed.clear()
                break
        todo = sorted(changed)
        if not todo:
            break
    for at, waited in waiting.items():
        nearest = sorted(waited, key=lambda p: (p > at, at - p))
        code[at].waits_for = [code[p].offset for p in nearest[:_MOST_NAMED]]


def _step(code: list[SassInstruction], at: int, state: _State, waiting: dict[int, set[int]]) -> int:
    """Process one instruction: update ``state`` and ``waiting``, and return the number of elementary steps."""
    one = code[at]
    looked_at = 1
    needed: set[int] = set()
    for register in one.reads | one.writes | {_BARRIER}:
        needed |= state.get(register, frozenset())
    if needed:
        waiting.setdefault(at, set()).update(needed - {at})
        looked_at += sum(map(len, state.values()))
        # After this wait, later instructions need not wait for these results again.
        for register, producers in list(state.items()):
            if left := producers - needed:
                state[register] = left
            else:
                del state[register]
    for register in one.writes:
        state.pop(register, None)
        if one.is_late or register in (_ASYNC, _BARRIER):
            state[register] = frozenset((at,))
    return looked_at


def _blocks(code: list[SassInstruction]) -> tuple[list[int], dict[int, list[int]]]:
    """Return the basic blocks: their start indexes, and the possible successors of each."""
    flow = _data()["flow"]
    at = {one.offset: i for i, one in enumerate(code)}
    jumping = {i: at.get(one.target) for i, one in enumerate(code) if one.target is not None}
    ends = {i for i, one in enumerate(code) if one.opcode in flow["ends"] or one.opcode in flow["jumps"]}
    starts = sorted(
        {0, *(t for t in jumping.values() if t is not None), *(i + 1 for i in (*ends, *jumping))} - {len(code)}
    )
    following = {}
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        last = code[end - 1]
        target = jumping.get(end - 1)
        after = [target] if target is not None else []
        # A conditional jump has a predicate, before its opcode or as an operand.
        conditional = last.text.startswith("@") or re.search(r"\s!?U?P\d", last.text)
        stops = last.opcode in (*flow["ends"], *flow["jumps"]) and not conditional
        if not stops and end < len(code):
            after.append(end)
        following[start] = after
    return starts, following


@cache
def _data() -> dict[str, Any]:
    data = module_data(__file__)
    classes = {opcode: kind for kind, opcodes in data["class"].items() for opcode in opcodes}
    parts = {part: {k: frozenset(v) for k, v in data[part].items()} for part in ("late", "stores", "flow")}
    return {"classes": classes, **parts}
