"""What a program needs to start: a valid command, its environment, and the secrets that logs must not contain."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ...analysis.base.problems import NotFound, command_advice, near
from ...analysis.catalogue import files
from .wording import problem

_VARIABLES = files.load(Path(__file__).with_suffix(".toml"))
_PASSED = frozenset(_VARIABLES["passed"])
_PASSED_PREFIXES, _LOADERS = (tuple(_VARIABLES[name]) for name in ("passed_prefixes", "loaders"))
SECRET = re.compile(
    r"TOKEN|SECRET|PASS(WORD|WD|PHRASE)?($|_)|_PW$|KEY|CREDENTIAL|COOKIE|PRIVATE|JWT|OAUTH|BEARER|SIGNATURE|^AWS_|^AZURE_|"
    r"^GITHUB_|^GITLAB_|^OPENAI_|^ANTHROPIC_|^GOOGLE_",
    re.IGNORECASE,
)
RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/=_.~-]{20,}")
_SHORTEST = 6
"""Minimum length of a secret that is searched for; shorter texts occur by chance."""
HIDDEN = "[withheld]"
LOGIN = re.compile(r"://[^/@\s]+:[^/@\s]+@")
"""A URL that contains a user name and a password."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTED = 3000
_SHOWN = 120


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the server's environment that programs inherit: what they need to run, without secrets."""
    return {
        name: value
        for name, value in environment.items()
        if (name in _PASSED or name.startswith(_PASSED_PREFIXES))
        and not (name.startswith(_LOADERS) or SECRET.search(name) or LOGIN.search(value))
    }


def secrets(environment: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    """Return the values that must not be shown: secret-looking variables that are withheld or ``given``.

    A withheld value counts as secret if its name suggests it, if it looks random, or if it contains a login.
    """
    passed_on = inherited_environment(environment)
    withheld = {n: v for n, v in environment.items() if n not in passed_on}
    values = [
        v for n, v in withheld.items() if SECRET.search(n) or (RANDOM.fullmatch(v) and "/" not in v) or LOGIN.search(v)
    ]
    values += [v for n, v in given.items() if SECRET.search(n)]
    return sorted({v for v in values if len(v) >= _SHORTEST}, key=len, reverse=True)


def without_prefixes(environment: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, str]:
    """Return the variables whose names start with none of ``prefixes``."""
    unwanted = tuple(prefixes)
    return {name: value for name, value in environment.items() if not name.startswith(unwanted)}


def redact(text: str, hidden: Sequence[str]) -> str:
    """Return ``text`` with every text in ``hidden`` (longest first) removed."""
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return text


def check_command(command: list[str], cwd: str | None, given: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the folder in which ``command`` can be started; raise BadArgument, NotFound or NotAllowed if it cannot.

    ``given`` are the variables that the caller sets; ``environment`` is what the program inherits besides. Programs are
    looked up on the PATH found in these two.
    """
    if not command or not command[0].strip():
        raise problem("no_command")
    for text in (*command, cwd or "", *given, *given.values()):
        if "\0" in text:
            raise problem("nul_character")
    if command[0].startswith("-"):
        raise problem(
            "dash_program",
            command=command[0][:_SHOWN],
            text="Put the program first, for example with a path: ./" + command[0][:_SHOWN],
        )
    for name in given:
        if not _VARIABLE.fullmatch(name):
            raise problem("bad_variable", name=name[:_SHOWN])
        if name.startswith(_LOADERS):
            raise problem("loader_variable", name=name[:_SHOWN])
    folder = _folder(cwd)
    _refuse_missing(command[0], folder, {**environment, **given}.get("PATH", os.defpath))
    return str(folder)


def _folder(cwd: str | None) -> Path:
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise problem("no_working_folder") from error
    if cwd is None:
        return here
    folder = Path(cwd).expanduser()
    if not folder.is_absolute():
        raise problem("relative_cwd", cwd=cwd[:_SHOWN], here=here, folder=here / cwd)
    if not folder.is_dir():
        raise problem("no_folder", cwd=cwd[:_SHOWN], name=near(folder.name, _names(folder.parent)))
    return folder


def _refuse_missing(program: str, folder: Path, path: str) -> None:
    """Raise a Problem if ``program`` cannot be started from ``folder``."""
    if "/" in program:
        if program.startswith("~"):
            expanded = os.path.expanduser(program)  # noqa: PTH111
            raise problem("needs_shell", program=program[:_SHOWN], expanded=expanded)
        place = folder / program
        if not place.exists():
            beside = near(place.name, _names(place.parent))
            raise problem("no_program", program=program[:_SHOWN], text=f"looked for {place}. {beside}".strip())
        if not (place.is_file() and os.access(place, os.X_OK)):
            fix = command_advice("Make it executable", f"chmod +x {place}")
            raise problem("not_executable", place=place, fix=fix)
        return
    places = [entry for entry in path.split(os.pathsep) if entry.startswith("/")]
    if shutil.which(program, path=os.pathsep.join(places)):
        return
    if (folder / program).is_file():
        raise problem("not_on_path", program=program[:_SHOWN], folder=folder)
    known = [name for place in places for name in _names(Path(place))]
    what = f"There is no program {program[:_SHOWN]!r} on PATH or in {folder}"
    spaced = "Pass each argument as its own list entry: no shell splits them" if " " in program else ""
    raise NotFound(what, near(program, known), spaced)


def _names(folder: Path) -> list[str]:
    try:
        return [p.name for p in islice(folder.iterdir(), _LISTED)]
    except OSError:
        return []
