"""Build the page: style, script and data in one HTML file that loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from ...analysis.base.text import visible_lines
from ...tools.base.results import round_number
from ...tools.rendering.document import clean

_FOLDER = Path(__file__).parent
_SCRIPTS = ("dom.js", "roofline.js", "timeline.js", "host_stacks.js", "kernel.js", "sections.js", "host.js", "main.js")
"""In the order of their dependencies; together they form one script."""
_INTERNED = "\x01"
"""The first character of a cell that refers to a shared text; displayed text never contains it."""
_LONG = 12
"""Texts of a table with at least this many characters are stored once."""
_DIGITS = 8
"""The digits of a figure in a table, twice as many as the page shows."""
OPENING = "<!doctype html>\n<!-- rooflens report -->"


def page(document: dict[str, Any] | None, title: str = "rooflens") -> str:
    """The page with the document of ``collect``, or, without one, as an app that requests it from its host."""
    style, script = _parts()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    held = "null" if document is None else pack_document(document).translate(_IN_A_SCRIPT)
    parts = {
        "policy": policy,
        "title": html.escape(visible_lines(title)),
        "style": style,
        "document": held,
        "script": script,
    }
    skeleton = (_FOLDER / "page.html").read_text(encoding="utf-8")
    # Replace everything in one pass, so that inserted text is never searched for placeholders.
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: parts[placeholder[1]], skeleton)


def pack_document(document: dict[str, Any]) -> str:
    """A document as JSON, without hidden characters and NaN; repeated texts of tables are stored once."""
    cleaned: dict[str, Any] = clean(document, visible_lines)
    texts: dict[str, int] = {}
    cleaned["workloads"] = _intern_texts(cleaned["workloads"], texts)
    cleaned["comparisons"] = _intern_texts(cleaned["comparisons"], texts)
    cleaned["short_names"] = list(cleaned["short_names"].items())
    cleaned["texts"] = list(texts)
    return json.dumps(cleaned, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


_IN_A_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Characters that could end the element that contains the document."""


def _intern_texts(value: Any, texts: dict[str, int]) -> Any:
    if isinstance(value, dict):
        if "columns" in value and "rows" in value:
            return {**value, "rows": [[_cell(cell, texts) for cell in row] for row in value["rows"]]}
        return {key: _intern_texts(part, texts) for key, part in value.items()}
    return [_intern_texts(part, texts) for part in value] if isinstance(value, list) else value


def _cell(cell: Any, texts: dict[str, int]) -> Any:
    if isinstance(cell, float):
        return round_number(cell, _DIGITS)
    if not isinstance(cell, str) or len(cell) < _LONG:
        return cell
    return f"{_INTERNED}{texts.setdefault(cell, len(texts))}"


@cache
def _parts() -> tuple[str, str]:
    """The style sheet and the script of the page."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    scripts = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return style, f'(() => {{\n"use strict";\n{scripts}}})();\n'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
