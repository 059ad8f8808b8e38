"""doctor --bundle: a text with what a maintainer needs, which users can read before they send it."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ... import __version__
from ...analysis.base.problems import BadArgument, StoreProblem
from ...analysis.base.text import shorten, visible_lines
from ...analysis.store.store import Store
from ...tools.device.machine.model import Check
from ...tools.device.machine.programs import ask
from ...tools.device.machine.survey import Machine
from ...tools.running import run_state as runs
from ...tools.running.command import HIDDEN, LOGIN, RANDOM, SECRET, redact, secrets

_KNOWN = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abeprs]-|npm_|pypi-|AKIA|ASIA|AIza|ya29\.)[A-Za-z0-9_.-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""Tokens with a known prefix, JSON web tokens, private keys."""
_BEARER = re.compile(r"\b(Bearer|Basic|Token)(\s+)[A-Za-z0-9+/=_.~-]{6,}", re.IGNORECASE)
_ASSIGNED = re.compile(r"""([A-Za-z_][\w.-]*)(["']?\s*[=:]\s*)("[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)""")
_ENDS_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|KEY|CREDENTIAL|COOKIE|JWT)S?$", re.IGNORECASE)
"""Names of secrets before a colon, except for KeyError."""
_FOREIGN_HOME = re.compile(r"(?<![\w.])(/home|/Users)/[^/\s:;,\"']+")
_ADDRESS = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_SHORTEST_NAME = 3
_COMMON = frozenset({"localhost", "root", "user", "app", "ubuntu", "test", "python", "gpu", "linux"})
"""Common names of users and hosts, which are not confidential and occur in other texts."""


@dataclass(frozen=True)
class Scrubber:
    """What must be hidden: the environment with its secrets, and the home, user and host of this machine."""

    environment: Mapping[str, str]
    home: Path
    user: str
    host: str

    def text(self, text: str) -> str:
        """Redact a text. Values of variables are removed from all assignments."""
        text = _KNOWN.sub(HIDDEN, redact(text, secrets(self.environment, {})))
        text = LOGIN.sub(f"://{HIDDEN}@", text)
        text = _BEARER.sub(rf"\1\2{HIDDEN}", text)
        text = _ASSIGNED.sub(self._assignment, text)
        text = _ADDRESS.sub("[address]", text)
        if self.home != Path("/"):
            text = re.sub(rf"{re.escape(str(self.home))}(?![\w.-])", "~", text)
        text = _FOREIGN_HOME.sub(r"\1/[user]", text)
        for name, placeholder in (
            (self.host, "[host]"),
            (self.host.partition(".")[0], "[host]"),
            (self.user, "[user]"),
        ):
            if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON:
                text = re.sub(
                    rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", placeholder, text, flags=re.IGNORECASE
                )
        return text

    def command(self, line: str) -> str:
        """Redact a command line, including the values of options that are named like secrets, and text that looks
        random."""
        try:
            words = shlex.split(line)
        except ValueError:
            words = line.split()
        clean_words, hide = [], False
        for word in words:
            if hide or (RANDOM.fullmatch(word) and "/" not in word):
                clean_words.append(HIDDEN)
            else:
                clean_words.append(self.text(word))
            hide = word.startswith("-") and "=" not in word and bool(SECRET.search(word.replace("-", "_")))
        return " ".join(clean_words)

    def _assignment(self, match: re.Match[str]) -> str:
        """Redact ``NAME=value`` for a variable of the environment, or for anything that is named like a secret."""
        name, sign, _ = match.groups()
        if "=" in sign:
            told = name in self.environment or SECRET.search(name.replace("-", "_"))
        else:
            told = _ENDS_SECRET.search(name)
        return f"{name}{sign}{HIDDEN}" if told else match[0]


_PACKAGES = (
    "mcp", "pydantic", "duckdb", "pandas", "matplotlib", "numpy", "hip-python", "cuda-bindings", "nvidia-cuda-nvrtc",
    "nvidia-ml-py", "ncu-report",
)  # fmt: skip
_HELP_S = 20.0
_HELP, _LOG, _LOGS = 40_000, 30_000, 12
"""The maximum characters of a help text and of a log (beginning and end), and the logs of a run."""
_UNTOLD = {"uuid", "pci"}
"""Fields of a device that identify one piece of hardware and do not help."""


@dataclass(frozen=True)
class Section:
    """One part of the bundle."""

    title: str
    text: str


def here() -> Scrubber:
    """What must be hidden of this process: its environment, home, user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return Scrubber(os.environ, Path.home(), user, os.uname().nodename)


def collect(store: Store, machine: Machine, checks: Sequence[Check], scrubber: Scrubber) -> list[Section]:
    """The sections: versions, checks, devices, output of profilers, the newest failed run. Nothing is written."""
    listed = [device.model_dump(exclude=_UNTOLD, exclude_none=True) for device in machine.devices]
    verdicts = {vendor: [verdict.usable, verdict.why] for vendor, verdict in machine.verdicts.items()}
    profilers = [profiler.model_dump(exclude_none=True) for profiler in machine.profilers]
    said = "\n".join(f"{c.state:8}  {c.name}: {c.found}" + (f" | fix: {c.fix}" if c.fix else "") for c in checks)
    sections = [
        Section("versions", _versions()),
        Section("checks of doctor", said),
        Section("devices", _json(listed)),
        Section("permissions: whether counters can be read, and why not", _json(verdicts)),
        Section("profilers", _json(profilers)),
        *_texts_of_profilers(machine),
        *_failed_run(store, scrubber),
    ]
    return [Section(section.title, visible_lines(scrubber.text(section.text))) for section in sections]


def write(path: Path, sections: Sequence[Section]) -> None:
    """Write a new file that only its owner may read. Raises BadArgument if it exists or cannot be written."""
    write_new(path, "\n".join(f"==== {section.title} ====\n{section.text}\n" for section in sections))


def write_new(path: Path, text: str) -> None:
    """Write a text to a new file that only its owner may read. Raises BadArgument if it exists or cannot be written."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(handle, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  os.open does not follow links
            file.write(text)
    except OSError as error:
        raise why_unwritable(path, error) from error


def refuse_existing(path: Path) -> None:
    """Raise BadArgument if the path exists, even as a dangling link."""
    if path.exists() or path.is_symlink():
        raise why_unwritable(path, FileExistsError())


def why_unwritable(path: Path, error: OSError) -> BadArgument:
    """The problem of a file that cannot be written."""
    if isinstance(error, FileExistsError):
        return BadArgument(f"{path} exists already", fix="Choose a new file, or delete the existing one first")
    return BadArgument(
        f"{path} cannot be written", error.strerror or str(error), "Choose a file in a folder of your own"
    )


def _versions() -> str:
    uname = os.uname()
    lines = [
        f"rooflens {__version__}",
        f"Python {sys.version.split()[0]} ({platform.python_implementation()})",
        f"{uname.sysname} {uname.release} {uname.machine}",
        f"{platform.libc_ver()[0]} {platform.libc_ver()[1]}".strip(),
    ]
    for name in _PACKAGES:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    return "\n".join(lines)


def _texts_of_profilers(machine: Machine) -> list[Section]:
    """The output of every installed profiler for --version and --help, from which rooflens derives its features."""
    asked = [
        (profiler.name, profiler.path, option)
        for profiler in machine.profilers
        if profiler.path and profiler.name not in machine.broken
        for option in ("--version", "--help")
    ]
    if not asked:
        return []
    with ThreadPoolExecutor(max_workers=len(asked)) as pool:
        answers = list(pool.map(lambda call: ask([call[1], call[2]], _HELP_S), asked))
    return [
        Section(f"{name} {option}", _ends(answer.out + answer.err, _HELP) or answer.complaint or "nothing")
        for (name, _, option), answer in zip(asked, answers, strict=True)
    ]


def _failed_run(store: Store, scrubber: Scrubber) -> list[Section]:
    """The newest failed run: its request, how it ended, and the output of its steps."""
    for folder in reversed(runs.folders(store)):
        try:
            record, state = runs.inspect_run(store, folder)
        except StoreProblem:
            continue
        if state.state == "failed":
            return _sections_of_failed_run(folder, record, state, scrubber)
    return [Section("failed run", "The store has no failed run.")]


def _sections_of_failed_run(
    folder: Path, record: runs.ProfileRun | runs.BenchmarkRun, state: runs.RunState, scrubber: Scrubber
) -> list[Section]:
    # Fields are listed by name, so that new fields are not included unnoticed. Variables are only counted.
    told = ("kind", "steps", "timeout_s", "profiler", "profiler_version", "counters", "mode", "gpu")
    asked = record.model_dump(include=set(told))
    if isinstance(record, runs.ProfileRun):
        request = record.request
        asked |= {"command": scrubber.command(record.command), "variables": len(record.variables)}
        asked |= {"target": request.target, "replay": request.replay}
    ended = state.model_dump(
        include={"state", "finished", "cut", "step", "fault", "status", "problem", "partial", "warnings"}
    )
    logs = [*sorted((folder / runs.LOGS).glob("*"), key=_modification_time)[-_LOGS:], folder / runs.SUPERVISOR_LOG]
    return [
        Section("failed run: request", _json(asked)),
        Section("failed run: outcome", _json(ended)),
        *(Section(f"failed run: {log.name}", _ends(_content(log), _LOG) or "empty") for log in logs if log.is_file()),
    ]


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _content(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - 4 * _LOG))
            return handle.read(4 * _LOG).decode("utf-8", "replace")
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _ends(text: str, limit: int) -> str:
    """A text, or its beginning and its end."""
    text = text.strip()
    return text if len(text) <= limit else f"{shorten(text[: limit // 2], limit)}\n[...]\n{text[-limit // 2 :]}"


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)


def bundle(store: Store, path: Path, tell: Callable[[str], None], parts: tuple[Machine, Sequence[Check]]) -> None:
    """Collect the sections, list them, and write the file. Raises BadArgument if the file exists."""
    refuse_existing(path)
    machine, checks = parts
    sections = collect(store, machine, checks, here())
    tell(f"{path} will contain, without variables, secrets, host and user names as far as they can be recognised:")
    for section in sections:
        tell(f"  {section.title} ({len(section.text):,} characters)")
    write(path, sections)
    tell("Written. Read it before you send it.")
