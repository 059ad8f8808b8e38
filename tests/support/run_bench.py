"""Runs of small Python programs under a real supervisor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests.support.waiting import END_S
from rooflens.tests.support.waiting import until as seen
from rooflens.tools.running import run_state as runs
from rooflens.tools.running import start as launch
from rooflens.tools.running.job import CallStep, Job, RunLimits, Step
from rooflens.tools.running.run_state import ProfileRun, RunState

LONG_S = END_S
"""No run of these tests takes longer on a loaded machine; programs that hold would take far longer."""


class Bench:
    """Starts runs in one store and looks at them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.limits: dict[str, float] = {"grace_s": 0.1, "linger_s": 0.2}

    def step(self, name: str, code: str, **changes: object) -> Step:
        """A step that runs Python code, which finds its output folder in OUT."""
        return Step(**{"name": name, "argv": (sys.executable, "-IS", "-c", code), **changes})  # type: ignore[arg-type]

    def begin(self, *steps: Step | CallStep, timeout_s: float = LONG_S, **more: Any) -> str:
        """Start a run of these steps; ``more`` is of the run's record or of its job."""
        run_id, folder = launch.new_run(self.store)
        run = ProfileRun.model_validate({"run_id": run_id, "name": "test", "timeout_s": timeout_s, **more})
        placed = [
            replace(s, env={**s.env, "OUT": str(folder / run.out / s.name)}) if isinstance(s, Step) else s
            for s in steps
        ]
        job = {name: value for name, value in more.items() if name in Job.model_fields}
        if finish := job.get("finish"):
            job["finish"] = finish.model_copy(update={"arguments": {"run_id": run_id, **finish.arguments}})
        launch.start(self.store, Job(run=run, steps=placed, limits=RunLimits.model_validate(self.limits), **job))
        return run_id

    def folder(self, run_id: str) -> Path:
        return self.store.run_folder(run_id)

    def state(self, run_id: str) -> RunState:
        return runs.inspect_run(self.store, self.folder(run_id))[1]

    def end(self, run_id: str, within_s: float = LONG_S) -> RunState:
        """The final state."""
        runs.wait(self.store, self.folder(run_id), within_s)
        state = self.state(run_id)
        assert state.state in ("done", "failed", "cancelled"), f"{state.state} after {within_s} s: {state.activity}"
        return state

    def until(self, found: Callable[[], object], within_s: float = LONG_S) -> None:
        """Wait until something is so."""
        seen(found, within_s)

    def log(self, run_id: str, name: str) -> str:
        return (self.folder(run_id) / "logs" / name).read_text(encoding="utf-8")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def bench(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    yield Bench(store)
    launch.stop_all()


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
