"""What a caller wants profiled: an argument list, a folder to start in, and variables, checked before it runs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..analysis.problems import BadArgument, NotAllowed, NotFound, near

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 3000
_SHOWN = 120


@dataclass(frozen=True)
class Program:
    """A command that can be started."""

    command: tuple[str, ...]
    cwd: str
    given: Mapping[str, str]
    """Variables that the caller sets."""


def checked(command: list[str], cwd: str | None, given: Mapping[str, str], environment: Mapping[str, str]) -> Program:
    """The command as it will be started; BadArgument, NotFound or NotAllowed say what is wrong with it.

    ``environment`` is what the program inherits; its PATH, or the caller's own, is searched.
    """
    if not command or not command[0].strip():
        raise BadArgument("The command is empty", fix='Give an argument list, such as ["./app", "--size", "1024"]')
    for text in (*command, cwd or "", *given, *given.values()):
        if "\0" in text:
            raise BadArgument("The command, folder or environment holds a NUL character", "no system accepts that")
    if command[0].startswith("-"):
        raise BadArgument(
            f"The program {command[0][:_SHOWN]!r} begins with a dash",
            "profilers would take it for an option",
            "Name the program first, for instance with a path: ./" + command[0][:_SHOWN],
        )
    for name in given:
        if not _NAME.fullmatch(name):
            raise BadArgument(f"The variable name {name[:_SHOWN]!r} cannot be used", fix="Letters, digits and _ only")
    folder = _folder(cwd)
    _found(command[0], folder, {**environment, **given}.get("PATH", os.defpath))
    return Program(tuple(command), str(folder), dict(given))


def _folder(cwd: str | None) -> Path:
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise BadArgument("The folder that the server runs in was deleted", fix="Give cwd, an absolute path") from error
    if cwd is None:
        return here
    folder = Path(cwd).expanduser()
    if not folder.is_absolute():
        raise BadArgument(
            f"cwd {cwd[:_SHOWN]!r} is no absolute path",
            "where the server was started is not for the caller to know",
            f"It runs in {here}; perhaps {here / cwd} is meant",
        )
    if not folder.is_dir():
        raise NotFound(f"The folder {cwd[:_SHOWN]} does not exist", near(folder.name, _names(folder.parent)))
    return folder


def _found(program: str, folder: Path, path: str) -> None:
    """Refuse a program that could not be started from ``folder``."""
    if "/" in program:
        place = Path(os.path.expanduser(program)) if program.startswith("~") else folder / program  # noqa: PTH111
        if program.startswith("~"):
            raise BadArgument(f"{program[:_SHOWN]} is a shell's spelling", "no shell runs it", f"Write {place}")
        if not place.exists():
            beside = near(place.name, _names(place.parent))
            raise NotFound(f"The program {program[:_SHOWN]} does not exist", f"looked for {place}. {beside}".strip())
        if not (place.is_file() and os.access(place, os.X_OK)):
            raise NotAllowed(f"{place} cannot be run", "it is no executable file", f"chmod +x {place}")
        return
    if shutil.which(program, path=os.pathsep.join(e for e in path.split(os.pathsep) if e.startswith("/"))):
        return
    if (folder / program).is_file():
        raise NotFound(
            f"There is no program {program[:_SHOWN]!r} on PATH", "", f"./{program} is in {folder}: write that"
        )
    known = [name for entry in path.split(os.pathsep) if entry.startswith("/") for name in _names(Path(entry))]
    what = f"There is no program {program[:_SHOWN]!r} on PATH or in {folder}"
    spaced = "An argument list has one entry per argument: no shell splits it" if " " in program else ""
    raise NotFound(what, near(program, known), spaced)


def _names(folder: Path) -> list[str]:
    try:
        return [p.name for p in islice(folder.iterdir(), _LISTED)]
    except OSError:
        return []
