"""The names of counters on each GPU target, which can differ between formulas, plans and profiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from string import Formatter

from . import files, targets
from .files import CatalogueModel
from .targets import family_table, find_target

_ANY = "*"


@cache
def aliases(target: str) -> tuple[tuple[str, ...], ...]:
    """For each counter all its names on a target, as patterns: first the name in formulas, then the name in plans.

    ``*`` matches the same text in all of them. They are stated in the keys ``aliases`` of a family's files.
    """
    return tuple((formula, *names) for formula, names in family_table(target, "aliases").items())


@cache
def names(target: str, counter: str) -> tuple[str, ...]:
    """Every name of a counter that formulas call ``counter``, the one used in plans first."""
    for formula, *known in aliases(target):
        if (text := _wildcard_text(counter, formula)) is not None:
            return tuple(dict.fromkeys(name.replace(_ANY, text) for name in known))
    return (counter,)


def spelling(target: str, counter: str) -> str:
    """The name in plans of a counter that formulas call ``counter``; ``C@PASS`` keeps its pass."""
    return names(target, counter)[0]


@cache
def canonical(target: str, counter: str) -> str:
    """The name in plans of a counter that a profile calls ``counter``."""
    known = _every_name(target, counter)
    return known[1] if known else counter


@cache
def other_names(target: str | None, counter: str) -> tuple[str, ...]:
    """The other names of a counter that a profile calls ``counter``; empty for a target without a file."""
    if (known := find_target(target)) is None:
        return ()
    return tuple(name for name in dict.fromkeys(_every_name(known.target, counter)) if name != counter)


def _every_name(target: str, counter: str) -> tuple[str, ...]:
    """All names of a counter that a profile calls ``counter``, in the order of ``aliases``; empty if none is known."""
    for patterns in aliases(target):
        for pattern in patterns:
            if (text := _wildcard_text(counter, pattern)) is not None:
                return tuple(name.replace(_ANY, text) for name in patterns)
    return ()


def _wildcard_text(name: str, pattern: str) -> str | None:
    """The text that ``*`` matches if a name fits a pattern, or None."""
    before, _, after = pattern.partition(_ANY)
    fits = len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after)
    return name[len(before) : len(name) - len(after)] if fits else None


class Identity(CatalogueModel):
    """A relation that the counters of every launch satisfy; if ``wrong`` holds, they do not belong to the same work.

    ``wrong`` is SQL over the columns of counters (c) and dispatches (d). It may contain facts of the device in braces,
    and so may ``text``, which states the relation. ``gpus`` are the targets that it holds for, if not the whole family.
    """

    id: str
    family: str
    gpus: list[str] = []
    counters: list[str]
    times: bool = False
    """Whether a violation also puts the times of the launches in doubt."""
    wrong: str
    text: str
    source: str
    seen: str
    """The range of the relation in profiles of real launches."""


class CounterSum(CatalogueModel):
    """The relation that counters of parts add up to the counter of their whole in every launch.

    They may differ by the share ``within`` of the whole, and by 200 counts. With ``at_most``, they may be less.
    """

    id: str
    family: str
    gpus: list[str] = []
    whole: str
    parts: list[str]
    at_most: bool = False
    within: float = 0.05
    text: str
    source: str
    seen: str

    def identity(self) -> Identity:
        """The relation as an identity."""
        total, whole = " + ".join(f'c."{name}"' for name in self.parts), f'c."{self.whole}"'
        wrong = f"{total} > {1 + self.within} * {whole} + {_SLACK}"
        if not self.at_most:
            wrong += f" OR {total} < {1 - self.within} * {whole} - {_SLACK}"
        stated = self.model_dump(exclude={"whole", "parts", "at_most", "within"})
        return Identity(**stated, counters=[*self.parts, self.whole], wrong=wrong)


_SLACK = 200
"""Counts by which parts may differ from their whole in any launch, however short."""


@cache
def all_identities() -> tuple[Identity, ...]:
    """All identities in rules/identities.toml, including those that its sums state."""
    sums = files.rule_entries("sum", CounterSum)
    return (*files.rule_entries("identity", Identity, "id"), *(one.identity() for one in sums))


def identities_of(target: str, facts: Mapping[str, float]) -> list[Identity]:
    """The identities of a target with its spellings and facts; those that need an unknown fact are omitted."""
    facts = {name: fact.value for name, fact in targets.gpu(target).facts.items()} | dict(facts)
    fact_texts = {name: f"{value:.17g}" for name, value in facts.items()}
    family = [one for one in all_identities() if one.family == targets.gpu(target).family]
    of_target = [one for one in family if targets.holds(one.gpus, target)]
    return [_fill_in(one, target, fact_texts) for one in of_target if _has_facts(one, facts)]


def _has_facts(one: Identity, facts: Mapping[str, float]) -> bool:
    return all(name in facts for text in (one.wrong, one.text) for _, name, _, _ in Formatter().parse(text) if name)


def _fill_in(one: Identity, target: str, facts: Mapping[str, str]) -> Identity:
    wrong = one.wrong.format_map(facts)
    spelled = {name: spelling(target, name) for name in one.counters}
    for name, here in spelled.items():
        wrong = wrong.replace(f'"{name}"', f'"{here}"')
    changes = {"counters": list(spelled.values()), "wrong": wrong, "text": one.text.format_map(facts)}
    return one.model_copy(update=changes)


EVERY_INSTANCE = "[*]"
_BLOCK = re.compile(r"[A-Z][A-Z0-9]*(?=_)")
_REGISTERS_OF = {"SQC": "SQ"}
"""Blocks that are counted in the registers of another block."""
_INSTANCED = ("TA", "TD", "TCP", "TCC", "GL1A", "GL1C", "GL2A", "GL2C", "GCEA")
_TOTAL = re.compile(r"_(sum|avr|min|max)$")
_INTEGRAL = "_ACCUM"
_NAME = re.compile(r"[A-Z0-9_]+[A-Z0-9](_(sum|avr|min|max)|\[(\d+|\*|max|xcd)\])?")


def block_of(counter: str) -> str | None:
    """The hardware block whose registers count a counter, or None if it is not a hardware counter."""
    block = _BLOCK.match(counter) if _NAME.fullmatch(counter) else None
    return _REGISTERS_OF.get(block[0], block[0]) if block else None


def level_of(counter: str) -> str | None:
    """The level counter whose time integral this is, or None."""
    level = counter.removesuffix(_INTEGRAL)
    return level if level != counter and "LEVEL" in level and block_of(counter) == "SQ" else None


def events_of(counter: str) -> tuple[str, ...]:
    """The events that each need a register for this counter; a level comes before its integral."""
    if level := level_of(counter):
        return level, counter
    if block_of(counter):
        return (_TOTAL.sub("", counter.split("[")[0]),)
    return (counter,)


def per_instance(counter: str) -> str:
    """The counter of every instance, for a counter of a block with instances whose name does not mean their total."""
    if _is_of_one_instance(counter):
        return counter + EVERY_INSTANCE
    return counter


def _is_of_one_instance(counter: str) -> bool:
    return block_of(counter) in _INSTANCED and events_of(counter) == (counter,)


def in_total(counter: str) -> str:
    """The total over all instances, for a counter whose name does not say so; a single instance becomes all
    instances."""
    if _is_of_one_instance(counter):
        return f"{counter}_sum"
    return f"{counter.split('[')[0]}{EVERY_INSTANCE}" if "[" in counter else counter


@cache
def why_not_countable(target: str, counter: str) -> str | None:
    """Why a target cannot count the events of a counter according to AMD's definitions, or None."""
    for event in events_of(counter):
        if why := targets.why_event_absent(target, event):
            return f"{target} has no counter {event}: {why}"
    return None
