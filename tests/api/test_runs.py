"""Runs that are waited for: whatever ends the waiting ends the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import rooflens
from rooflens.analysis.store.store import Store
from rooflens.api import calls


@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_whatever_progress_raises_cancels_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    cancelled: list[str] = []
    monkeypatch.setattr(calls, "call", lambda *_: SimpleNamespace(state="running", progress="p", run_id="r1"))
    monkeypatch.setattr(calls, "cancel_run", lambda _, run: cancelled.append(run))

    def progress(_: str) -> None:
        raise raised

    with pytest.raises(raised):
        calls.wait_for_result(Store(tmp_path), rooflens.open, {}, progress)
    assert cancelled == ["r1"]
