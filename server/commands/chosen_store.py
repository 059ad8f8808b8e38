"""The store that a command line chooses: a command that only reads does not take a wrong address for an empty store."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...analysis.base.problems import BadArgument, StoreProblem, near
from ...analysis.store.store import Store, is_store
from .verbs import BY_NAME

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = ("s3", "ducklake")
_READING = (
    *("report", "gate", "history", "export-db", "export-trace", "tag", "push", "prune"),
    *("ls", "show", "diagnose", "timeline", "metrics", "roofline", "hotspots", "compare", "plot", "sql"),
)
"""The commands that need a store that exists. All others need none, or create it."""
_READING_TOOLS = frozenset(verb.tool for name, verb in BY_NAME.items() if name in _READING)


def choose_store(explicit: str | None, command: str, tool: str | None = None) -> Store:
    """The store of --store, $ROOFLENS_STORE or the user's data folder, for a command, which may call a tool.

    Raises BadArgument for an address of an unknown kind, and StoreProblem if a command that reads would read a folder
    that does not exist or that holds other files.
    """
    address = explicit or os.environ.get("ROOFLENS_STORE") or ""
    origin = "--store" if explicit else "ROOFLENS_STORE"
    if (scheme := _SCHEME.match(address)) and scheme[1] not in _SCHEMES:
        why = f"{scheme[1]}:// is not supported ({origin})"
        fix = "Give a folder, s3://BUCKET/PREFIX or ducklake:..."
        raise BadArgument(f"There is no store {address!r}", why, fix)
    store = Store.locate(explicit)
    if address and (command in _READING or tool in _READING_TOOLS) and store.address == str(store.root):
        _check_folder(store.root, origin)
    return store


def _check_folder(root: Path, origin: str) -> None:
    """Raise StoreProblem unless the folder is a store, or an empty folder that may become one."""
    if not root.exists():
        hint = near(root.name, [p.name for p in root.parent.iterdir()] if root.parent.is_dir() else [])
        why = f"the folder does not exist ({origin}). {hint}".strip()
        raise StoreProblem(
            f"There is no store {root}", why, "Commands that write, such as `rooflens import`, create it"
        )
    if not root.is_dir():
        raise StoreProblem(f"{root} is not a store", f"it is a file ({origin})", "Give a folder")
    try:
        entries = sorted(entry.name for entry in root.iterdir())
    except OSError as error:
        raise StoreProblem(f"The store {root} cannot be read", error.strerror or str(error)) from error
    own = ("peak", "runs", "tmp", "plots", "derived")
    if entries and not is_store(entries) and not set(entries) & set(own):
        raise StoreProblem(
            f"{root} is not a store", f"it contains other files: {', '.join(entries[:3])} ({origin})", "Give a store"
        )
