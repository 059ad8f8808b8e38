"""Classification of host calls by function name (call_kinds.toml), as SQL for all readers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ....analysis.base.database import sql_literal
from ..merging.contract import Connection, one_row
from ..parsing.module_data import module_data

HOST = ("api", "sync", "alloc")
"""Kinds of events that are host calls."""
_OTHER = "host"


def categories() -> frozenset[str]:
    """Return the closed set of categories of host calls."""
    return frozenset(module_data(__file__)["categories"])


def kind_of(name: str) -> str:
    """Return SQL for the kind (api, sync or alloc) of the host call whose function is the expression ``name``."""
    return _case(name, module_data(__file__)["kinds"], HOST[0])


def category_of(name: str) -> str:
    """Return SQL for the category of the host call whose function is the expression ``name``."""
    table = module_data(__file__)
    return _case(name, {**table["purposes"], **table["libraries"]}, _OTHER)


def is_call(name: str) -> str:
    """Return SQL for whether the expression ``name`` is a function of one of the GPU libraries."""
    known = [pattern for patterns in module_data(__file__)["libraries"].values() for pattern in patterns]
    return _fits(name, known)


def _case(name: str, table: Mapping[str, Sequence[str]], otherwise: str) -> str:
    cases = " ".join(f"WHEN {_fits(name, patterns)} THEN {sql_literal(word)}" for word, patterns in table.items())
    return f"CASE {cases} ELSE {sql_literal(otherwise)} END"


def _fits(name: str, patterns: Sequence[str]) -> str:
    return f"regexp_full_match({name}, {sql_literal('|'.join(f'(?:{p})' for p in patterns))})"


def vendor_of(con: Connection, device: str | None, calls: str) -> str | None:
    """Return the vendor of a GPU: from its name, else from the library whose functions were called.

    ``calls`` is a FROM clause of calls with the column text.
    """
    if device and re.search(r"AMD|Instinct|Radeon", device):
        return "amd"
    if device and re.search(r"NVIDIA|GeForce|Tesla|Quadro", device):
        return "nvidia"
    amd, nvidia = one_row(
        con,
        "SELECT count(*) FILTER (starts_with(text, 'hip') OR starts_with(text, 'hsa_')), "
        f"count(*) FILTER (starts_with(text, 'cu')) {calls}",
    )
    return None if amd == nvidia else "amd" if amd > nvidia else "nvidia"


_PAGEABLE, _PINNED = 1, 2
"""CUpti_ActivityMemoryKind."""


def cuda_copy(number: str) -> str:
    """Return SQL for the direction of the CUpti_ActivityMemcpyKind ``number``."""
    cases = " ".join(f"WHEN {way} THEN '{name}'" for way, name in module_data(__file__)["cuda"].items())
    return f"CASE {number} {cases} ELSE 'other' END"


def cuda_pinned(number: str, source: str, target: str) -> str:
    """Return SQL for whether the host side of a copy is pinned, by the CUpti_ActivityMemoryKind of both sides."""
    host = f"CASE {cuda_copy(number)} WHEN 'h2d' THEN {source} WHEN 'd2h' THEN {target} END"
    return f"CASE {host} WHEN {_PAGEABLE} THEN false WHEN {_PINNED} THEN true END"


def direction_of(name: str) -> str:
    """Return SQL for the direction that a name of a copy states, h2d, d2h, d2d, p2p, h2h or other."""
    cases = " ".join(
        f"WHEN regexp_matches(lower({name}), '{fits}') THEN '{way}'"
        for way, fits in module_data(__file__)["ways"].items()
    )
    return f"CASE {cases} ELSE 'other' END"


def is_pinned(name: str) -> str:
    """Return SQL for whether the host side of a copy is pinned; NULL if the name does not say."""
    return (
        f"CASE WHEN contains(lower({name}), 'pageable') THEN false WHEN contains(lower({name}), 'pinned') THEN true END"
    )
