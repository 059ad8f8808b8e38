"""The tree of calls of the host, as the page of a report draws it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ...analysis.base.problems import BadInput
from ...analysis.store.store import Store
from ...analysis.tables.derived import stored_value
from ...analysis.timeline.host_code import Frame
from ...analysis.timeline.host_tree import host_tree
from ...analysis.workload import Workload


def host_stacks(store: Store, workload: str) -> dict[str, Any] | None:
    """Return frames, nodes and values of the tree; None if the workload has no timeline or no code of the host."""
    with suppress(BadInput), Workload.open(store, workload) as opened:
        return stored_value(opened, "host-stacks", dict[str, Any] | None, lambda: _tree(opened))
    return None


def _tree(opened: Workload) -> dict[str, Any] | None:
    tree = host_tree(opened)
    if tree is None:
        return None
    return {
        "unit": tree.unit,
        "frames": {"columns": list(Frame._fields), "rows": [list(frame) for frame in tree.frames]},
        "threads": tree.threads,
        "steps": tree.steps,
        "parent": tree.parent.tolist(),
        "frame": tree.frame.tolist(),
        **{name: None if values is None else values.round().tolist() for name, values in vars(tree.cells).items()},
    }
