"""Runs of small Python programs under a real supervisor."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rooflens.analysis.store import Store
from rooflens.tools.runner import lookup
from rooflens.tools.runner import start as launch
from rooflens.tools.runner.job import CallStep, CommandStep, Limits
from rooflens.tools.runner.state import RunState

LONG_S = 20.0
"""No run of these tests takes longer on a loaded machine."""


class Bench:
    """Starts runs in one store and looks at them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.limits: dict[str, float] = {"grace_s": 0.3, "linger_s": 0.5}

    def step(self, name: str, code: str, **changes: object) -> CommandStep:
        """A step that runs Python code, which finds its output folder in OUT."""
        env = {"PATH": os.environ["PATH"]}
        return CommandStep.model_validate(
            {"name": name, "argv": [sys.executable, "-c", code], "cwd": "/", "env": env, **changes}
        )

    def begin(self, *steps: CommandStep | CallStep, timeout_s: float = LONG_S, **more: object) -> str:
        """Start a run of these steps; it need not write anything unless a step says so."""
        run_id, folder = launch.new_run(self.store)
        placed = [
            s.model_copy(update={"env": {**s.env, "OUT": str(folder / "out" / s.name)}}) if s.kind == "command" else s
            for s in steps
        ]
        launch.start(self.store, run_id, placed, kind="profile", name="test", timeout_s=timeout_s, **more)  # type: ignore[arg-type]
        return run_id

    def folder(self, run_id: str) -> Path:
        return self.store.run_folder(run_id)

    def state(self, run_id: str) -> RunState:
        return lookup.look(self.store, self.folder(run_id))[1]

    def end(self, run_id: str, within_s: float = LONG_S) -> RunState:
        """The final state."""
        lookup.wait(self.store, self.folder(run_id), within_s)
        state = self.state(run_id)
        assert state.state in ("done", "failed", "cancelled"), f"still {state.state} after {within_s} s: {state.doing}"
        return state

    def until(self, found: Callable[[], object], within_s: float = LONG_S) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + within_s
        while not found():
            assert time.monotonic() < deadline, "did not happen in time"
            time.sleep(0.02)

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
    found = Bench(store)
    monkeypatch.setattr(
        launch, "Limits", lambda timeout_s: Limits.model_validate({**found.limits, "timeout_s": timeout_s})
    )
    yield found
    launch.stop_all()


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
