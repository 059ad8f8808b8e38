"""The tool cancel_run: end a run."""

from __future__ import annotations

from ..analysis.store.store import Store
from .base.parameters import Reference
from .get_run import RunResult, run_result
from .running import run_state as runs
from .running.run_state import FINAL

_SETTLE_S = 8.0
"""How long the processes of a cancelled run may take to end before the answer."""


def cancel_run(
    store: Store,
    run_id: Reference,
) -> RunResult:
    """End a run and every process it started; what finished passes measured is kept as a partial workload."""
    folder = runs.find(store, run_id)
    if runs.inspect_run(store, folder)[1].state in FINAL:
        result = run_result(store, folder)
        return result.model_copy(update={"notes": [*result.notes, "The run had ended already."]})
    runs.cancel(store, folder)
    return run_result(store, folder, _SETTLE_S)
