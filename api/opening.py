"""rooflens.open: the store of this user, or another one."""

from __future__ import annotations

from pathlib import Path

from ..analysis.base.problems import NotFound
from ..analysis.store.store import Store
from .store import OpenStore


def open(store: str | Path | None = None, *, read_only: bool = False) -> OpenStore:
    """Open a store of workloads: a folder, else ``$ROOFLENS_STORE``, else the user's data folder.

    A folder that does not exist yet is an empty store; the first import makes it. With ``read_only`` it must exist, and
    everything that would write to it raises NotAllowed. Nothing stays open: there is nothing to close.

    Raises Problem for a folder that cannot be a store, or that a newer rooflens wrote.
    """
    located = Store.locate(store)
    located.read_only = located.read_only or read_only
    if read_only and located.address == str(located.root) and not located.root.exists():
        raise NotFound(
            f"There is no store at {located.root}",
            "a store that is only read must exist",
            "Check the path, or open it without read_only",
        )
    located.scan()
    return OpenStore(located)
