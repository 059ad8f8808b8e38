"""What is profiled: processes of other users are not, and a process is asked whether it listens."""

from __future__ import annotations

import os

import pytest

from rooflens.analysis.base.problems import NotAllowed
from rooflens.tools.running.profiled_program import listens, subject


def test_a_process_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert subject(None, os.getpid(), None, {}, {}).called
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    with pytest.raises(NotAllowed, match="another user"):
        subject(None, os.getpid(), None, {}, {})


def test_a_process_without_the_thread_does_not_listen() -> None:
    assert not listens(os.getpid()) and not listens(2**22 + 1)
