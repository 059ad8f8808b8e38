"""What a host call does, told by the name of its function (calls.toml), as SQL for all readers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ....analysis.base.database import sql_literal

HOST = ("api", "sync", "alloc")
"""Kinds of events that are host calls."""
_OTHER = "host"


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def categories() -> frozenset[str]:
    """The closed set of categories of host calls."""
    return frozenset(_table()["categories"])


def kind_of(name: str) -> str:
    """SQL: the kind of the host call whose function is the expression ``name``: api, sync or alloc."""
    return _case(name, _table()["kinds"], HOST[0])


def category_of(name: str) -> str:
    """SQL: the category of the host call whose function is the expression ``name``."""
    table = _table()
    return _case(name, {**table["purposes"], **table["libraries"]}, _OTHER)


def is_call(name: str) -> str:
    """SQL: whether the expression ``name`` is a function of one of the GPU's libraries."""
    known = [pattern for patterns in _table()["libraries"].values() for pattern in patterns]
    return _fits(name, known)


def _case(name: str, table: Mapping[str, Sequence[str]], otherwise: str) -> str:
    cases = " ".join(f"WHEN {_fits(name, patterns)} THEN {sql_literal(word)}" for word, patterns in table.items())
    return f"CASE {cases} ELSE {sql_literal(otherwise)} END"


def _fits(name: str, patterns: Sequence[str]) -> str:
    return f"regexp_full_match({name}, {sql_literal('|'.join(f'(?:{p})' for p in patterns))})"
