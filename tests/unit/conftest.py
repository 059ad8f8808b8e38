"""Unit tests start no process: a test that does belongs in tests/system."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from rooflens.tools.isolation import child, fork_server
from rooflens.tools.running import start

_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
_started: list[str] = []


def _watch(event: str, _: tuple[object, ...]) -> None:
    if event in _STARTS:
        _started.append(event)


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which a process was started, even if the code under test hides the refusal."""

    def refuse(*_: object) -> None:
        _started.append("a child of rooflens")
        raise AssertionError("a unit test starts a process")

    for module in (child, fork_server, start):
        monkeypatch.setattr(module, "start_fresh", refuse)
    _started.clear()
    yield
    if _started:
        pytest.fail(f"this test starts a process ({', '.join(sorted(set(_started)))}): it belongs in tests/system")
