"""Removal of secrets, and of the names of users, hosts and home folders, from texts that leave the machine."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
        names = {self.host: "[host]", self.host.partition(".")[0]: "[host]", self.user: "[user]"}
        for name, placeholder in names.items():
            if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON:
                text = re.sub(rf"(?i)(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", placeholder, text)
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
        secret: object = _ENDS_SECRET.search(name)
        if "=" in sign:
            secret = name in self.environment or SECRET.search(name.replace("-", "_"))
        return f"{name}{sign}{HIDDEN}" if secret else match[0]


def here() -> Scrubber:
    """What must be hidden of this process: its environment, home, user and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return Scrubber(os.environ, Path.home(), user, os.uname().nodename)
