"""Plans for test_planned_steps.py, and how supervisors of tests look around; they and workers of runs import it."""

from __future__ import annotations

from typing import Any

from rooflens.analysis.base.problems import NotFound
from rooflens.tools.running import child


def plan(
    store: Any, progress: Any, code: str, took_s: float, passes: int = 1, within_s: float | None = None, **further: Any
) -> dict[str, Any]:
    """Steps that run ``code``; their command is added by the supervisor."""
    if code == "refuse":
        raise NotFound("No kernel matches", "there is none", "Look again")
    argv = ["/bin/sh", "-c", code, "counting"]
    steps = [{"name": f"pass_{n}", "argv": argv, **further} for n in range(1, passes + 1)]
    return {"steps": steps, "remarks": [f"planned after {took_s:.0f} s"], "within_s": within_s}


def finish(store: Any, progress: Any, run_id: str) -> dict[str, Any]:
    """What is saved at the end."""
    return {"workload": None, "kept": True}


def notice(store: Any, progress: Any, run_id: str) -> dict[str, Any]:
    """A call that notices the cancellation of its run before the supervisor does."""
    return {"kept": True, "cancelled": True}


def look_often() -> None:
    """A supervisor that prepares itself by this looks at processes and disk all the time instead of once a second."""
    child._SELDOM_S = 0.05
