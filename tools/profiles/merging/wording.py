"""The notes and refusals of all readers: their code says when, and their wording is data (wording.toml)."""

from __future__ import annotations

import re
from collections.abc import Sized
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text, first_few
from ....analysis.base.wording import Wording
from ..parsing.module_data import module_data

_LIST = re.compile(r"(?P<count>\+?)(?P<most>\d*)(?P<separator>.*)")
_LISTED = 8


class ReaderWording(Wording):
    """Formats values as the wording of a reader states, also the number of items of a list with their noun.

    ``{names:4}`` are the first four of a list, and an ellipsis if there are more;
    ``{names:+4}`` says how many more there are, and ``{names:4; }`` has another separator. A file is named without its
    folder.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Sized) and format_spec[1:2].isalpha():
            return count_text(len(value), *format_spec.split("|"))
        if isinstance(value, list):
            match = _LIST.fullmatch(format_spec)
            assert match
            names, most = [self.format_field(item, "") for item in value], int(match["most"] or _LISTED)
            separator = match["separator"] or ", "
            if match["count"]:
                return first_few(names, most, separator)
            return separator.join(names[:most]) + (" ..." if len(names) > most else "")
        return value.name if isinstance(value, Path) else super().format_field(value, format_spec)


def note(key: str, **values: Any) -> Note:
    """Return the note with this key: its code, and after a dot which of the notes with that code it is."""
    code, _, which = key.partition(".")
    wording = module_data(__file__)["notes"][code]
    return Note(code, ReaderWording().format(wording[which] if which else wording, **values))


def refusal(key: str, **values: Any) -> BadInput:
    """Return the error with this key: what is wrong with a profile, why, and what to do."""
    wording = module_data(__file__)["refusals"][key]
    return BadInput(**{part: ReaderWording().format(text, **values) for part, text in wording.items()})
