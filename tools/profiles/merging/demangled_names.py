"""Readable names of C++ kernels, demangled with the C++ library of the machine (docs/decisions/028)."""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ...base.untrusted_text import KERNEL_LIMIT, bounded_name, plain_kernel_name, visible_name
from .contract import Connection, all_rows, parquet

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib")
_MANGLED = re.compile(r"_Z[0-9A-Za-z_.$]+( #[0-9a-f]{12})?")
"""A mangled name, possibly with the hash that bounded_name in names.py adds to a name that it cuts."""
_LENGTH = re.compile(r"[1-9][0-9]{0,3}")
_LONGEST = 1000
"""Characters. GNU's library demangles names of up to 1,024 characters; longer ones could also take long."""
_DIGITS = 12
_PIECE = re.compile(r"L[a-z]n?[0-9]+E|(?P<length>[1-9][0-9]{0,2})(?=[A-Za-z_])")
"""A number among template arguments, or the length prefix of the name that follows."""
_CLASS = re.compile(r"[A-Z][a-z]+[A-Z]\w{4,60}")
_SHOWN = 3


@lru_cache(maxsize=50_000)
def demangle_name(name: str) -> str:
    """Return the readable form of a mangled name; any other name unchanged.

    A very long name is shortened to its name without template arguments and a hash that keeps it distinct.
    """
    if not _MANGLED.fullmatch(name):
        return name
    if len(name) > _LONGEST:
        return _shorten_name(name)
    library = _library()
    text = (library(name) if library else None) or name
    return text if len(text) <= KERNEL_LIMIT else _shorten_name(name)


def with_readable(con: Connection, select: str) -> str:
    """Return a FROM item with the rows of ``select``, in which mangled names in the column ``kernel`` are demangled."""
    con.execute(f"CREATE OR REPLACE TABLE mangled_rows AS {select}")
    names = all_rows(con, "SELECT DISTINCT kernel FROM mangled_rows WHERE starts_with(kernel, '_Z')")
    con.execute("CREATE OR REPLACE TABLE demangled_names (kernel VARCHAR, readable VARCHAR)")
    if names:
        con.executemany("INSERT INTO demangled_names VALUES (?, ?)", [[name, demangle_name(name)] for (name,) in names])
    return (
        "(SELECT m.* REPLACE (coalesce(d.readable, m.kernel) AS kernel) "
        "FROM mangled_rows m LEFT JOIN demangled_names d USING (kernel))"
    )


def kernel_names(con: Connection, out: Path, names: str) -> str:
    """Return SQL for name and shown of the kernels in the SELECT ``names``: shown as in the table dispatches, if there.

    The table is that below ``out``, if the profile has launches.
    """
    shown, stored = bounded_name(visible_name("name")), out / "dispatches.parquet"
    kernels = with_readable(con, f"SELECT name, {shown} AS raw, {plain_kernel_name(shown)} AS kernel FROM ({names})")
    if not stored.exists():
        return f"SELECT name, kernel AS shown FROM {kernels}"
    known = f"SELECT DISTINCT ON (kernel_raw) kernel_raw AS raw, kernel AS known FROM {parquet([stored])}"
    return f"SELECT name, coalesce(known, kernel) AS shown FROM {kernels} LEFT JOIN ({known}) USING (raw)"


def _shorten_name(name: str) -> str:
    """Return ``a::b<SomeClass, ...#hash>`` for ``_ZN1a1bI...``; the name itself if it has another form."""
    at = 2
    nested = name.startswith("N", at)
    at += nested
    parts = []
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[0])
        part = name[length.end() : at]
        parts.append("(anonymous namespace)" if part.startswith("_GLOBAL__N") else part)
        if not nested:
            break
    if not parts or not name.startswith("I", at):
        return name
    class_names = "".join(f"{word}, " for word in _class_names(name[at:])[:_SHOWN])
    return f"{'::'.join(parts)}<{class_names}...#{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}>"


def _class_names(arguments: str) -> list[str]:
    """Return the names in mangled template arguments that look like class names, each once."""
    names: dict[str, None] = {}
    at = 0
    while piece := _PIECE.search(arguments, at):
        at = piece.end()
        if not piece["length"]:
            continue
        word = arguments[at : at + int(piece["length"])]
        if len(word) == int(piece["length"]) and _CLASS.fullmatch(word):
            names[word] = None
            at += len(word)
    return list(names)


@cache
def _library() -> Callable[[str], str | None] | None:
    """Return the demangling function of the C++ library, or None if there is no library."""
    for file in _LIBRARIES:
        try:
            demangle, free = ctypes.CDLL(file).__cxa_demangle, ctypes.CDLL(None).free
        except (OSError, AttributeError):
            continue
        demangle.restype = ctypes.c_void_p
        demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        return partial(_demangle, demangle, free)
    return None


def _demangle(demangle: Any, free: Any, name: str) -> str | None:
    text = demangle(name.encode("ascii"), None, None, ctypes.byref(ctypes.c_int()))
    if not text:
        return None
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        free(text)
