"""Extensions from other Python packages, which register them as entry points.

A package adds a reader, a profiler or catalogue files by naming an object in its ``pyproject.toml``::

    [project.entry-points."rooflens.readers"]
    acmeprof = "rooflens_acmeprof:READER"

Our own reader and driver of ``perf stat`` are registered in the same way.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .problems import BadInput

READERS = "rooflens.readers"
DRIVERS = "rooflens.drivers"
CATALOGUE = "rooflens.catalogue"
GROUPS = (READERS, DRIVERS, CATALOGUE)


@dataclass(frozen=True)
class Extension:
    """One entry point: its group and name, and the package with its version that registers it."""

    group: str
    name: str
    package: str
    version: str
    _entry: EntryPoint

    def load(self) -> Any:
        """The registered object. Raises BadInput if its package cannot be imported."""
        try:
            return self._entry.load()
        except Exception as error:
            raise BadInput(
                f"The extension {self.name} of the package {self.package} cannot be loaded",
                f"{type(error).__name__}: {error}"[:300],
                f"Update or uninstall {self.package}",
            ) from error


@cache
def extensions(group: str) -> tuple[Extension, ...]:
    """The extensions of a group, sorted by name; of several with one name, the first in the order of ``sys.path``."""
    known: dict[str, Extension] = {}
    for entry in entry_points(group=group):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("unknown", "")
        known.setdefault(entry.name, Extension(group, entry.name, package, version, entry))
    return tuple(known[name] for name in sorted(known))


def install_command(*packages: str) -> str:
    """The command that adds packages to the environment of this program, which uv, pipx or pip has made."""
    prefix, words = Path(sys.prefix), shlex.join(packages)
    if "pipx" in prefix.parts and "venvs" in prefix.parts:
        return f"pipx inject {shlex.quote(prefix.name)} {words}"
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip install --python {python} {words}"
    return f"{python} -m pip install {words}"


def packages_of(extra: str) -> list[str]:
    """The requirements of an optional part of rooflens, by our own metadata; empty if it is not installed."""
    try:
        stated = [line.partition(";") for line in requires("rooflens") or ()]
    except PackageNotFoundError:
        return []
    wanted = re.compile(rf"extra == [\"']{re.escape(extra)}[\"']")
    return [need.strip() for need, _, condition in stated if wanted.search(condition)]
