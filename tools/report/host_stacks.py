"""The tree of calls of the host, as the page of a report draws it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ...analysis.base.problems import BadInput
from ...analysis.store.store import Store
from ...analysis.timeline.host_tree import host_tree
from ...analysis.workload import Workload

_CHARACTERS = 1_000
"""Maximum characters of a name."""
_FRAME = ("function", "file", "line", "module", "own", "text")


def host_stacks(store: Store, workload: str) -> dict[str, Any] | None:
    """Return frames, nodes and values of the tree; None if the workload has no timeline or no code of the host."""
    tree = None
    with suppress(BadInput), Workload.open(store, workload) as opened:
        tree = host_tree(opened)
    if tree is None or not len(tree.parent):
        return None
    frames = [[part[:_CHARACTERS] if isinstance(part, str) else part for part in frame] for frame in tree.frames]
    idle = tree.cells.idle_ns
    return {
        "unit": tree.unit,
        "frames": {"columns": list(_FRAME), "rows": [frame[: len(_FRAME)] for frame in frames]},
        "threads": tree.threads,
        "steps": tree.steps,
        "parent": tree.parent.tolist(),
        "frame": tree.frame.tolist(),
        "node": tree.cells.node.tolist(),
        "thread": tree.cells.thread.tolist(),
        "step": tree.cells.step.tolist(),
        "time": tree.cells.time.round().tolist(),
        "idle": None if idle is None else idle.round().tolist(),
    }
