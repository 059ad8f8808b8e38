"""The vendors' words for the same thing: LDS is shared memory on NVIDIA, a wavefront is a warp."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

from .files import load
from .targets import find_target

SENTENCES = {
    "advice", "answer", "causes", "claim", "do", "evidence", "falsify", "limit", "loads", "notes", "sentence", "then",
    "title", "undecided", "view",
}  # fmt: skip
"""Fields of answers that contain sentences and terms of our own."""


def in_vendor_terms(text: str, target: str | None, data: Iterable[str] = ()) -> str:
    """Return one of our own sentences in the words of the vendor of ``target``.

    Names of metrics stay as they are, and so do the strings of ``data`` that the text quotes, such as the names of
    kernels and instructions.
    """
    gpu = find_target(target) if target else None
    terms = _terms(gpu.vendor) if gpu else None
    if terms is None:
        return text
    pattern, words = terms
    quoted = sorted({part for part in data if part in text and pattern.search(part)}, key=len, reverse=True)
    if quoted:
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, quoted))})(?!\w)|{pattern.pattern}")
    return pattern.sub(lambda match: match[0] if match[0] in quoted else _with_case_of(match[0], words), text)


def document_in_vendor_terms(value: Any, target: str | None, names: Set[str], field: str = "") -> Any:
    """Return a document of plain data with its sentences in the words of the vendor of ``target``.

    ``names``, which the sentences quote, tables, and fields with names and codes stay as they are.
    """
    if isinstance(value, dict) and "columns" not in value:
        return {key: document_in_vendor_terms(part, target, names, key) for key, part in value.items()}
    if isinstance(value, list):
        return [document_in_vendor_terms(part, target, names, field) for part in value]
    return in_vendor_terms(value, target, names) if field in SENTENCES and isinstance(value, str) else value


def limit_words(subsystem: str, beside: Sequence[str] | None = None) -> str:
    """Return what limits a kernel in words, such as ``device memory`` for hbm, with what limits it at the same time."""
    words = [_vocabulary()["subsystems"].get(name, name) for name in (subsystem, *(beside or ()))]
    return f"{', '.join(words[:-1])} and {words[-1]} at once" if beside else str(words[0])


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
