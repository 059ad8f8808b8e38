"""profiling_config.yaml of rocprof-compute: how a profile was taken, and what that means for whoever reads it."""

from __future__ import annotations

import re
from pathlib import Path

from ....analysis.base.notes import Note
from ...base.profile_files import head, is_inside
from ...base.untrusted_text import plain_text

_LIMIT = 1 << 20
_SHOWN = 200
_KEY = re.compile(r"(?P<key>\w+):(?: +(?P<value>\S.*))?")
_NOTHING = ("", "null", "[]", "{}", "false", "~")
Options = dict[str, str]
"""Option -> its value as text; the items of a list separated by commas. What is not set is left out."""


def read_options(folder: Path) -> Options:
    """The options of profiling_config.yaml: keys at the left margin with a plain value or a list of such.

    That is all that the profiler writes there, so a small strict reading stands for a whole parser of YAML.
    """
    file = folder / "profiling_config.yaml"
    if not file.is_file() or not is_inside(file, folder):
        return {}
    options: Options = {}
    key = ""
    for line in head(file, _LIMIT).decode("utf-8", errors="replace").splitlines():
        if match := _KEY.fullmatch(line.rstrip()):
            key = match["key"]
            options[key] = _plain(match["value"] or "")
        elif key and line.startswith(("- ", "  ")):
            item = _plain(line.removeprefix("- "))
            separator = ", " if line.startswith("- ") else " "
            options[key] = plain_text(f"{options[key]}{separator}{item}" if options[key] else item, _SHOWN)
    return {key: value for key, value in options.items() if value}


def option_notes(options: Options) -> list[Note]:
    """What the options mean for the reader of the profile."""
    notes = []
    if filters := [key for key in ("kernel", "dispatch") if options.get(key)]:
        text = f"The profile is filtered by {' and '.join(f'{key} ({options[key]})' for key in filters)}: "
        notes.append(Note("filtered", f"{text}it is not the whole program."))
    if blocks := options.get("filter_blocks") or options.get("set_selected"):
        notes.append(Note("some_blocks", f"Only counters of {blocks} were asked for: other metrics have no counters."))
    if options.get("attach_pid"):
        notes.append(Note("attached", "The profiler was attached to a running program: its start is not there."))
    return notes


def _plain(value: str) -> str:
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return "" if text in _NOTHING else plain_text(text, _SHOWN)
