"""The kernels' source texts: one file each with its headers put in, as compilers without a file system take them."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent / "kernels"
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)


@cache
def text(name: str) -> str:
    """A source file of kernels/ with every header of ours in place of its first #include."""
    return _flat(name, set())


@cache
def version() -> str:
    """A short hash over all kernels and the table: measurements of different versions do not compare."""
    digest = hashlib.sha256()
    for path in [*sorted(_HERE.iterdir()), _HERE.parent / "peaks.toml"]:
        if path.suffix in (".cu", ".h", ".toml"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _flat(name: str, seen: set[str]) -> str:
    def header(match: re.Match[str]) -> str:
        if match[1] in seen:
            return ""
        seen.add(match[1])
        return _flat(match[1], seen)

    return _INCLUDE.sub(header, (_HERE / name).read_text(encoding="utf-8").replace("#pragma once\n", ""))
