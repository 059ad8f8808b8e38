"""Programs and benchmarks run from Python: started as the tools start them, waited for, cancelled with Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..analysis.base.problems import NotAllowed
from ..analysis.store.store import Store
from ..tools.base.progress import Activity, Listener, listening
from ..tools.get_run import LONGEST_WAIT_S, RunResult, get_run
from .asking import ask
from .failures import RunFailed

_STEP_S = 2.0


def wait_for_result(
    store: Store, tool: Callable[..., RunResult], arguments: dict[str, Any], progress: Listener | None
) -> RunResult:
    """The result of a run that ``tool`` starts, once it is done; ``progress`` gets what it is doing.

    Raises RunFailed where it is not done, NotAllowed where the store may only be read. The run is cancelled
    by an interrupt, and by whatever ``progress`` raises.
    """
    from ..tools.cancel_run import cancel_run
    from ..tools.running.run_state import FINAL

    if store.read_only:
        raise NotAllowed("Nothing can be run", "the store is open for reading only", "Open it without read_only")
    with listening(progress) if progress else nullcontext():
        result = ask(store, tool, arguments, wait_s=0)
        told = ""
        try:
            while result.state not in FINAL:
                if progress and result.progress != told:
                    told = result.progress
                    progress(Activity(told))
                result = get_run(store, result.run_id, wait_s=_STEP_S if progress else LONGEST_WAIT_S)
        except BaseException:
            cancel_run(store, result.run_id)
            raise
    if result.state != "done":
        raise RunFailed(result)
    return result
