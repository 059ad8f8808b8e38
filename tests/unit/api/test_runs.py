"""Runs that are waited for: whatever ends the waiting ends the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import rooflens
from rooflens.analysis.store.store import Store
from rooflens.api import calls
from rooflens.tools.base import progress as progress_reports


@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_whatever_progress_raises_cancels_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    cancelled: list[str] = []

    def progress(_: str) -> None:
        raise raised

    monkeypatch.setattr(progress_reports, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(calls, "call", lambda *_: SimpleNamespace(state="running", run_id="r1"))
    monkeypatch.setattr(calls, "get_run", lambda *_, **__: progress_reports.report("counting"))
    monkeypatch.setattr(calls, "cancel_run", lambda _, run: cancelled.append(run))
    with pytest.raises(raised), progress_reports.listening(progress):
        calls.wait_for_result(Store(tmp_path), rooflens.open, {})
    assert cancelled == ["r1"]
