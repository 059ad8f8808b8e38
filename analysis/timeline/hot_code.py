"""The code of the host that matters: few rows that explain most of the idle time, each a function with its line.

Stacks are a tree of calls. It is followed from the outside as long as functions have a part of the time that matters,
so that a row is the innermost function that explains its part: if the time is spread over many functions below it, it
is the function that calls them, and what is too little for a row of its own counts for the function above it. Frames of
frameworks (host_rules.toml) belong to the code that calls them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .busy import Within
from .host_code import Frame, HostCode, Stack
from .host_idle import CODE_CAUSES, code_idle
from .host_rules import CodeKind, CodePart, host_rules, is_framework
from .host_waits import Via
from .trace import Floats, Trace

LEAST_SHARE = 0.04
"""A row has at least this share of the time that is explained."""
_BELOW = 3
_EMPTIES = re.compile(r"(^|\.)empty_cache$")
_MOST_OF_MODEL = 2 / 3
"""What a model launches is shown for the innermost function that has at least this share of it."""
_LAUNCH = CODE_CAUSES.index("launch")
_ALLOCATION = CODE_CAUSES.index("allocation")


@dataclass(frozen=True)
class HotCode:
    """Code that the devices wait for."""

    frame: Frame
    """The innermost function that explains the time, with the line that has most of it."""
    own: Frame | None
    """The innermost function of the program's own code at or above it; None if there is none."""
    callers: Sequence[Frame]
    """The functions above it, without frameworks, the outermost first."""
    below: Sequence[str]
    """Functions of frameworks that it calls, most time first."""
    ns: Floats
    """Idle time by cause, as in ``CODE_CAUSES``."""
    busy_ns: float
    """The time that threads spent in it, whatever the devices did; waits for the device excluded."""
    stacks: frozenset[int]
    """The numbers of its stacks."""
    part: CodePart | None = None
    """The work that is no part of the program's loop, if it is such."""
    waits: int = 0
    """How often it waits for the device, and how long in all."""
    waited_ns: float = 0.0
    via: Via = "self"
    """How it keeps the launching thread from its work, mostly: that thread runs it, waits for it, or needs its GIL."""

    @property
    def idle_ns(self) -> float:
        """The idle time that is charged to it."""
        return float(self.ns.sum())

    @property
    def main_cause(self) -> str:
        """The cause of the largest part of the idle time."""
        return CODE_CAUSES[int(self.ns.argmax())]

    @property
    def kind(self) -> CodeKind:
        """What the code does, as far as it is recognised."""
        return next(kind for kind in host_rules().kinds if self._is(kind))

    def _is(self, kind: CodeKind) -> bool:
        if kind.part != (self.part and self.part.name):
            return False
        if kind.causes and self.main_cause not in kind.causes:
            return False
        if kind.waits and self.waited_ns < host_rules().waited_share * self.idle_ns:
            return False
        if kind.text is None and kind.function is None:
            return True
        by_text = kind.text is not None and kind.text.search(self.frame.text or "")
        functions = (self.frame.function, *self.below[:1])
        return bool(by_text or (kind.function and any(map(kind.function.search, functions))))


@dataclass(frozen=True)
class HotCodes:
    """The code with most of the idle time, and all of it in sum."""

    rows: Sequence[HotCode]
    """The rows, most idle time first."""
    total: Floats
    """Idle time that the host causes, by cause as in ``CODE_CAUSES``, also without known code."""
    unexplained: Floats
    """The part of it without known code."""


@dataclass(frozen=True, eq=False)
class _Charged:
    """One stack without frameworks, and what is charged to it."""

    number: int
    path: Stack
    below: str | None
    model: int
    """The depth of the outermost module of PyTorch whose call is part of the path; the length of the path if none."""
    ns: Floats
    busy_ns: float
    waits: tuple[int, float]
    held: Mapping[Via, float]

    def function(self, depth: int) -> str | None:
        """Return the function at a depth of the path, or else the one below it."""
        return self.path[depth].function if depth < len(self.path) else self.below


class _Group(NamedTuple):
    """Stacks that become one row, and how much of their paths they have in common."""

    charged: Sequence[_Charged]
    depth: int


def _idle_ns(charged: Iterable[_Charged]) -> float:
    return sum(float(one.ns.sum()) for one in charged)


def path_of(stack: Stack) -> tuple[Stack, str | None]:
    """Return the frames of a stack without frameworks and repetitions, and the first framework function below them that
    does not only wrap another one.

    A stack with frames of frameworks only keeps its outermost one.
    """
    kept = [at for at, frame in enumerate(stack) if not is_framework(frame)]
    path: list[Frame] = []
    for at in kept or [0]:
        if path and path[-1].key == stack[at].key:
            path.pop()
        path.append(stack[at])
    inner = stack[(kept[-1] if kept else 0) + 1 :]
    wrapped = [frame for frame in inner if not host_rules().wrapper_files.search(frame.file or "")]
    return tuple(path), next((frame.function for frame in wrapped or inner), None)


def part_of(stack: Stack) -> tuple[CodePart | None, int]:
    """Return the part of host_rules.toml that a stack belongs to, and the number of frames outside of it."""
    for part in host_rules().parts:
        for depth, frame in enumerate(stack):
            if part.file.search(frame.file or ""):
                return part, depth
    return None, len(stack)


def hot_codes(trace: Trace, code: HostCode, within: Within) -> HotCodes:
    """Return the rows that explain the idle time within the windows, most of it first."""
    idle = code_idle(trace, code, within)
    total = sum(idle.ns.T[idle.stacks], np.zeros(len(CODE_CAUSES)))
    charged: dict[CodePart | None, list[_Charged]] = defaultdict(list)
    for number in idle.stacks:
        if stack := code.stacks[number]:
            part, depth = part_of(stack)
            inner = stack[:depth] or stack[:1]
            path, below = path_of(inner)
            held = {via: float(own[number]) for via, own in idle.held.items()}
            times = float(idle.busy[number]), (int(idle.waits[number]), float(idle.waited[number])), held
            model = _model_depth(inner, len(path))
            charged[part].append(_Charged(number, path, below, model, idle.ns[:, number].copy(), *times))
    for own in charged.values():
        _charge_emptying(own)
    least = max(LEAST_SHARE * total.sum(), 1.0)
    rows = []
    for part, own in charged.items():
        same: dict[tuple[str, str | None], list[_Group]] = defaultdict(list)
        for group in sorted(_groups(_with_whole_models(own), 0, least)[0], key=lambda group: -_idle_ns(group.charged)):
            same[group.charged[0].path[group.depth - 1].key].append(group)
        rows += [_row(groups, part) for groups in same.values()]
    return HotCodes(sorted(rows, key=lambda row: -row.idle_ns), total, idle.ns[:, 0])


def _charge_emptying(charged: list[_Charged]) -> None:
    """Charge allocations to the code that empties the cache of the allocator, if there is any.

    An allocator with a cache, as that of PyTorch, asks the driver again for what was given back.
    """
    empties = np.array([_EMPTIES.search(one.below or "") is not None for one in charged])
    ns = np.array([one.ns[_ALLOCATION] for one in charged])
    if ns[empties].any():
        for one, charge in zip(charged, ns * empties * (ns.sum() / ns[empties].sum()), strict=True):
            one.ns[_ALLOCATION] = charge


def _model_depth(stack: Stack, depth: int) -> int:
    """Return how many frames of the path lie outside of the first call of a module of PyTorch; ``depth`` if none does.

    What many small modules launch is one cause, and a graph or a compiler removes it for the whole model.
    """
    calls = (at for at, frame in enumerate(stack) if host_rules().model_call.search(frame.file or ""))
    first = next(calls, 0)
    return min(len(path_of(stack[:first])[0]), depth) if first else depth


def _with_whole_models(charged: Sequence[_Charged]) -> list[_Charged]:
    """Return the stacks, those of one model that are charged for launches as far as they have most of it in common."""
    models: dict[tuple[tuple[str, str | None], ...], list[_Charged]] = defaultdict(list)
    kept: list[_Charged] = []
    for one in charged:
        is_launching = one.model < len(one.path) and one.ns[_LAUNCH] >= one.ns.sum() / 2
        key = tuple(frame.key for frame in one.path[: one.model + 1])
        (models[key] if is_launching else kept).append(one)
    for stacks in models.values():
        inside, depth = stacks, stacks[0].model + 1
        least = _MOST_OF_MODEL * _idle_ns(stacks)
        while inside and _idle_ns(inside) >= least:
            common, deepest = inside, depth
            first = _most((one.function(depth), one.ns.sum()) for one in inside if depth < len(one.path))[:1]
            inside = [one for one in inside if depth < len(one.path) and one.function(depth) in first]
            depth += 1
        path = common[0].path[:deepest]
        kept += [replace(one, path=path, below=one.function(deepest) if one in common else None) for one in stacks]
    return kept


def _groups(charged: Sequence[_Charged], depth: int, least: float) -> tuple[list[_Group], list[_Charged]]:
    """Return the rows of stacks that are equal up to ``depth``, each as its stacks, and the stacks in none of them."""
    rows: list[_Group] = []
    callees: dict[tuple[str, str | None] | None, list[_Charged]] = defaultdict(list)
    for one in charged:
        callees[one.path[depth].key if depth < len(one.path) else None].append(one)
    rest = callees.pop(None, [])
    for group in callees.values():
        if _idle_ns(group) >= least:
            below, group = _groups(group, depth + 1, least)
            rows += below
        rest += group
    return ([*rows, _Group(rest, depth)], []) if depth and _idle_ns(rest) >= least else (rows, rest)


def _row(groups: Sequence[_Group], part: CodePart | None) -> HotCode:
    """Return the row of one function: the group with most of the time says who calls it."""
    (charged, depth), every = groups[0], [one for group in groups for one in group.charged]
    frame = _most((one.path[depth - 1], one.ns.sum()) for one in charged)[0]
    callers = charged[0].path[: depth - 1]
    below = _most((function, one.ns.sum()) for one in charged if (function := one.function(depth)))
    return HotCode(
        frame,
        next((f for f in (frame, *reversed(callers)) if f.own), None),
        callers,
        below[:_BELOW],
        np.sum([one.ns for one in every], axis=0),
        sum(one.busy_ns for one in every),
        frozenset(one.number for one in every),
        part,
        sum(one.waits[0] for one in every),
        sum(one.waits[1] for one in every),
        _via(charged),
    )


def _via(charged: Sequence[_Charged]) -> Via:
    """Return why most of the time is charged."""
    half = _idle_ns(charged) / 2
    return next((via for via in charged[0].held if sum(one.held[via] for one in charged) > half), "self")


def _most(weights: Iterable[tuple[Any, float]]) -> list[Any]:
    """Return the different values, that with the largest sum first."""
    sums: dict[Any, float] = defaultdict(float)
    for value, weight in weights:
        sums[value] += weight
    return sorted(sums, key=lambda value: -sums[value])
