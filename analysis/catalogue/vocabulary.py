"""The vendors' words for the same thing: LDS is shared memory on NVIDIA, a wavefront is a warp."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .files import Model, load
from .targets import find_target

_SENTENCES = {"claim", "do", "falsify", "title"}
"""The fields of entries that are in the terms of the vendor."""


def in_vendor_terms(template: str, target: str | None) -> str:
    """Return one of our own sentences or titles, before values are filled in, in the words of the vendor of ``target``.

    Names of metrics and placeholders stay as they are.
    """
    gpu = find_target(target) if target else None
    return _vendor_sentence(template, gpu.vendor) if gpu else template


def entry_in_vendor_terms(entry: Model, target: str) -> Model:
    """Return an entry of the catalogue whose claim, title and advice are in the words of the vendor of ``target``."""
    texts = {name: _sentence(getattr(entry, name), target) for name in _SENTENCES & entry.model_fields_set}
    advice = [entry_in_vendor_terms(one, target) for one in getattr(entry, "advice", [])]
    return entry.model_copy(update={**texts, **({"advice": advice} if advice else {})})


def _sentence(template: str, target: str) -> str:
    """Return a sentence that keeps its capital: LDS becomes Shared memory at its beginning."""
    text = in_vendor_terms(template, target)
    return text[0].upper() + text[1:] if template[0].isupper() else text


def limit_words(subsystem: str, beside: Sequence[str] | None = None, *, target: str | None) -> str:
    """Return what limits a kernel in words, such as ``device memory`` for hbm, with what limits it at the same time."""
    words = _titles("subsystems", (subsystem, *(beside or ())), target)
    return f"{', '.join(words[:-1])} and {words[-1]} at once" if beside else words[0]


def limiter_words(limiters: Iterable[str], target: str | None) -> str:
    """Return what limits an occupancy in words, such as ``wave slots`` for wave_slots."""
    return ", ".join(_titles("limiters", limiters, target))


def _titles(kind: str, names: Iterable[str], target: str | None) -> list[str]:
    known = _vocabulary()[kind]
    return [in_vendor_terms(known.get(name, name), target) for name in names]


@cache
def _vendor_sentence(template: str, vendor: str) -> str:
    terms = _terms(vendor)
    if terms is None:
        return template
    pattern, words = terms
    return pattern.sub(lambda match: _with_case_of(match[0], words), template)


def _with_case_of(written: str, words: Mapping[str, str]) -> str:
    if written in words:
        return words[written]
    replaced = words[written[0].lower() + written[1:]]
    return replaced[0].upper() + replaced[1:]


@cache
def _terms(vendor: str) -> tuple[re.Pattern[str], Mapping[str, str]] | None:
    """Return a pattern for the words to replace, also at the beginning of a sentence, and their replacements."""
    words: dict[str, str] | None = _vocabulary()["terms"].get(vendor)
    if not words:
        return None
    written = sorted({*words, *(word[0].upper() + word[1:] for word in words)}, key=len, reverse=True)
    return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, written))})(?![\w]|\.\w)"), words


@cache
def _vocabulary() -> dict[str, Any]:
    return load(Path(__file__).with_suffix(".toml"))
