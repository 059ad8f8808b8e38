"""The notes and refusals of all readers: their code says when, and their wording is data (wording.toml)."""

from __future__ import annotations

from pathlib import Path
from string import Formatter
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ..parsing.module_data import module_data

_LISTED = 8


class _Wording(Formatter):
    """Formats values as the wording states.

    ``{launches:launch}`` is a number, or the number of items of a list, with its noun; ``{rows:row has|rows have}``
    gives an irregular plural. ``{names:4}`` are the first four of a list, and an ellipsis if there are more. A file is
    named without its folder.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec[1:2].isalpha():
            return count_text(value if isinstance(value, int) else len(value), *format_spec.split("|"))
        if isinstance(value, list):
            most = int(format_spec or _LISTED)
            names = ", ".join(self.format_field(item, "") for item in value[:most])
            return names + (" ..." if len(value) > most else "")
        return value.name if isinstance(value, Path) else format(value, format_spec)


def note(key: str, **values: Any) -> Note:
    """Return the note with this key: its code, and after a dot which of the notes with that code it is."""
    code, _, which = key.partition(".")
    wording = module_data(__file__)["notes"][code]
    return Note(code, _Wording().format(wording[which] if which else wording, **values))


def refusal(key: str, **values: Any) -> BadInput:
    """Return the error with this key: what is wrong with a profile, why, and what to do."""
    wording = module_data(__file__)["refusals"][key]
    return BadInput(**{part: _Wording().format(text, **values) for part, text in wording.items()})
