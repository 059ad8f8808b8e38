"""Why sampled waves waited: the vocabulary of reasons, and what each profiler calls them (stalls.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..base.database import sql_literal

UNKNOWN = "other"
ISSUED, READY = "issued", "ready"


@dataclass(frozen=True)
class StallReason:
    """One reason: what the wave waits for in words, the subsystem it points at, and whether it waits at all."""

    name: str
    title: str
    subsystem: str
    waits: bool


@cache
def reasons() -> dict[str, StallReason]:
    """Every reason by its name, in the order of the file."""
    return {name: StallReason(name, **facts) for name, facts in _data()["reason"].items()}


def reason_sql(profiler: str, raw: str, instruction: str) -> str:
    """SQL of the reason that a profiler's name (``raw``) stands for: UNKNOWN for an unknown name, NULL for none.

    ``instruction`` is the text of the sampled one, which decides where the name alone means several things.
    """
    cases = [f"WHEN {raw} IS NULL THEN NULL"]
    for name, entry in _data()["raw"][profiler].items():
        for choice in _choices(entry):
            condition = (
                f" AND contains(coalesce({instruction}, ''), {sql_literal(choice['when'])})" if "when" in choice else ""
            )
            cases.append(f"WHEN {raw} = {sql_literal(name)}{condition} THEN {sql_literal(choice['reason'])}")
    return f"CASE {' '.join(cases)} ELSE {sql_literal(UNKNOWN)} END"


def reason_of(profiler: str, raw: str, instruction: str) -> str:
    """The reason that a profiler's name stands for at an instruction; UNKNOWN for an unknown name."""
    choices = _choices(_data()["raw"][profiler].get(raw))
    return next((one["reason"] for one in choices if one.get("when", "") in instruction), UNKNOWN)


def profilers() -> tuple[str, ...]:
    """The profilers whose names are known."""
    return tuple(_data()["raw"])


def _choices(entry: str | list[dict[str, str]] | None) -> list[dict[str, str]]:
    return [{"reason": entry}] if isinstance(entry, str) else entry or []


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
