"""The names of counters: what profiles call a counter that formulas name otherwise, on each GPU target."""

from __future__ import annotations

from functools import cache

from .targets import changes, family_documents, find_target

_ANY = "*"


@cache
def aliases(target: str) -> tuple[tuple[str, ...], ...]:
    """Per counter all of its names on a target, as patterns: first what formulas say, then what plans ask for first.

    ``*`` stands for the same text in all of them. The keys ``aliases`` of a family's files state them.
    """
    stated: dict[str, list[str]] = {}
    for document in family_documents(target):
        for part in (document, *changes(document, target)):
            stated |= part.get("aliases", {})
    return tuple((formula, *names) for formula, names in stated.items())


@cache
def names(target: str, counter: str) -> tuple[str, ...]:
    """Every name of a counter that formulas call ``counter``, the one that plans ask for first."""
    for formula, *known in aliases(target):
        if (text := _wildcard_text(counter, formula)) is not None:
            return tuple(dict.fromkeys(name.replace(_ANY, text) for name in known))
    return (counter,)


def spelling(target: str, counter: str) -> str:
    """The name that plans ask for, of a counter that formulas call ``counter``; ``C@PASS`` keeps its pass."""
    return names(target, counter)[0]


@cache
def canonical(target: str, counter: str) -> str:
    """The name that plans ask for, of what a profile calls ``counter``."""
    for formula, *known in aliases(target):
        for pattern in (formula, *known):
            if (text := _wildcard_text(counter, pattern)) is not None:
                return known[0].replace(_ANY, text)
    return counter


@cache
def other_names(target: str | None, counter: str) -> tuple[str, ...]:
    """The further names of what a profile calls ``counter``; none on a target without a file."""
    if (known := find_target(target)) is None:
        return ()
    for patterns in aliases(known.target):
        for pattern in patterns:
            if (text := _wildcard_text(counter, pattern)) is not None:
                every = dict.fromkeys(name.replace(_ANY, text) for name in patterns)
                return tuple(name for name in every if name != counter)
    return ()


def _wildcard_text(name: str, pattern: str) -> str | None:
    """The text that ``*`` stands for where a name fits a pattern, or None."""
    before, _, after = pattern.partition(_ANY)
    fits = len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after)
    return name[len(before) : len(name) - len(after)] if fits else None
