"""What formulas may name: terms, counters and launch columns, as the family of a target spells and means them."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from .targets import Strict, gpu

_HERE = Path(__file__).parent / "metrics"
# Launch columns of the table dispatches that formulas may name.
LAUNCH = ("grid", "workgroup_size", "vgpr", "agpr", "sgpr", "lds_bytes", "scratch_bytes")


@cache
def alternatives(target: str) -> dict[str, tuple[str, ...]]:
    """Named expressions that formulas of a target may use, in an order in which each needs only earlier ones.

    Of several expressions for one quantity the first counts whose inputs a workload has; profiling asks for the
    counters of the first.
    """
    found: dict[str, str | list[str]] = {}
    for document in of_family(target):
        found |= document.get("terms", {}) | document.get("on", {}).get(target, {}).get("terms", {})
    return {name: (stated,) if isinstance(stated, str) else tuple(stated) for name, stated in found.items()}


@cache
def terms(target: str) -> dict[str, str]:
    """The same with the first expression of each."""
    return {name: stated[0] for name, stated in alternatives(target).items()}


class Normal(Strict):
    """What a metric with ``norm`` may be divided by: the expression, and the word that its unit then ends in."""

    den: str
    word: str


@cache
def normalizations(target: str) -> dict[str, Normal]:
    """The divisors of normalised metrics on a target, by their names."""
    stated = {n: v for d in of_family(target) for n, v in d.get("normalization", {}).items()}
    return {name: Normal.model_validate(value) for name, value in stated.items()}


@cache
def is_counter(target: str, name: str) -> bool:
    """Whether a name in a formula is a counter of the profiler rather than a term, a fact or a launch column.

    The terms file of a family says what its counters look like.
    """
    if name in LAUNCH or name == "duration_ns" or name in alternatives(target) or name in gpu(target).facts:
        return False
    patterns = [d["counters"] for d in of_family(target) if "counters" in d]
    return any(re.fullmatch(pattern, name) for pattern in patterns)


@cache
def renames(target: str) -> dict[str, str]:
    """Counter prefixes of the formulas -> their spelling on this target (TCC_EA_ became TCC_EA0_)."""
    found: dict[str, str] = {}
    for document in of_family(target):
        found |= document.get("on", {}).get(target, {}).get("rename", {})
    return found


def spelling(target: str, counter: str) -> str:
    """The target's spelling of a counter that formulas call ``counter``."""
    for prefix, actual in renames(target).items():
        if counter.startswith(prefix):
            return actual + counter.removeprefix(prefix)
    return counter


@cache
def _documents() -> tuple[dict[str, Any], ...]:
    files = sorted(_HERE.glob("*.toml"))
    return tuple(tomllib.loads(f.read_text(encoding="utf-8")) for f in files if f.stem != "presets")


def of_family(target: str) -> list[dict[str, Any]]:
    """The files of metrics/ that hold for a target."""
    family = gpu(target).family
    return [d for d in _documents() if d["family"] == family and target in d.get("gpus", [target])]
