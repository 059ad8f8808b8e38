"""What counters of one launch cannot be beside one another, read from rules/*.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Formatter

from . import aliases, files, targets
from .files import CatalogueModel


class Identity(CatalogueModel):
    """A relation that counters of every launch keep; where ``wrong`` holds, they are not of the same work.

    ``wrong`` is SQL over the columns of counters (c) and dispatches (d). It and ``text``, which says what is kept, may
    name facts of the device in braces. ``gpus`` are the targets that it holds for, where not all of the family.
    """

    id: str
    family: str
    gpus: list[str] = []
    counters: list[str]
    times: bool = False
    """Whether it doubts the times of the launches too."""
    wrong: str
    text: str
    source: str
    seen: str
    """The range in which the relation lies in profiles of real launches."""


@cache
def all_identities() -> tuple[Identity, ...]:
    """All of them."""
    entries = [entry for document in files.documents("rules").values() for entry in document.get("identity", [])]
    return tuple(files.validate_entry(Identity, entry, f"The identity {entry.get('id')}") for entry in entries)


def identities_of(target: str, facts: Mapping[str, float]) -> list[Identity]:
    """Those of a target with its spellings and facts; what needs a fact that is not known is left out."""
    facts = {name: fact.value for name, fact in targets.gpu(target).facts.items()} | dict(facts)
    fact_texts = {name: f"{value:.17g}" for name, value in facts.items()}
    of_target = [
        one for one in all_identities() if one.family == targets.gpu(target).family and target in (one.gpus or [target])
    ]
    return [_fill_in(one, target, fact_texts) for one in of_target if _has_facts(one, facts)]


def _has_facts(one: Identity, facts: Mapping[str, float]) -> bool:
    return all(name in facts for text in (one.wrong, one.text) for _, name, _, _ in Formatter().parse(text) if name)


def _fill_in(one: Identity, target: str, facts: Mapping[str, str]) -> Identity:
    wrong = one.wrong.format_map(facts)
    spelled = {name: aliases.spelling(target, name) for name in one.counters}
    for name, here in spelled.items():
        wrong = wrong.replace(f'"{name}"', f'"{here}"')
    changes = {"counters": list(spelled.values()), "wrong": wrong, "text": one.text.format_map(facts)}
    return one.model_copy(update=changes)
