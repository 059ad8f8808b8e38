"""A child process of one function: both ways to start it give the same confinement and end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests.support.waiting import END_S
from rooflens.tests.system.tools.isolation import works
from rooflens.tests.system.tools.isolation.works import started
from rooflens.tools.isolation import child as isolation
from rooflens.tools.isolation.child import ChildBug, ChildLost, Home

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, which is a thing of Linux")


def forked(code: str) -> Any:
    """The JSON that ``code`` prints in a process with one thread, where a child is forked."""
    head = (
        "import json, time\nfrom rooflens.tests.system.tools.isolation import works\n"
        "from rooflens.tests.system.tools.isolation.works import started\n"
        "from rooflens.tools.isolation.child import *\nassert may_fork()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, timeout=END_S, check=True
    )
    return json.loads(done.stdout)


def test_messages_go_both_ways_and_the_child_ends_with_its_context() -> None:
    with started(works.echo, text="\ud800 é") as child:
        hello = child.receive()
        assert hello["arguments"] == {"text": "\ud800 é"}
        child.send({"n": [1, None]})
        assert child.receive() == {"again": {"n": [1, None]}}
        pid = hello["pid"]
        assert pid == child.pid == hello["session"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@linux
def test_a_forked_child_has_no_files_and_no_variables_of_its_parent(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    code = f"""
import os
os.environ["CANARY"] = "seen"
file = open({str(secret)!r})
from pathlib import Path
with started(works.echo, home=Home(Path({str(tmp_path)!r}), {{"HOME": "."}})) as child:
    print(json.dumps(child.receive()))
"""
    hello = forked(code)
    assert hello["environment"] == {"HOME": "."} and hello["folder"] == str(tmp_path) and hello["threads"] == 1
    assert not [f for f in hello["files"] if "secret" in f or f.startswith("pipe:")]
    assert sum(f.startswith("socket:") for f in hello["files"]) == 1


@linux
def test_a_fresh_child_sees_only_its_own_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "seen")
    monkeypatch.setattr(isolation, "may_fork", lambda: False)
    with started(works.echo, home=Home(tmp_path, {"HOME": "."})) as child:
        hello = child.receive()
    assert "CANARY" not in hello["environment"] and hello["folder"] == str(tmp_path)
    assert sum(f.startswith("socket:") for f in hello["files"]) == 1


@linux
def test_memory_beyond_the_limit_ends_the_child_and_not_the_parent() -> None:
    with started(works.eat_memory) as child, pytest.raises(ChildLost) as lost:
        child.receive()
    assert lost.value.was_killed
    code = """
with started(works.eat_memory) as child:
    try:
        child.receive()
    except ChildLost as lost:
        print(json.dumps(lost.was_killed))
"""
    assert forked(code) is True


def test_the_deadline_ends_what_computes_for_ever() -> None:
    with started(works.burn) as child:
        pid = child.receive()["pid"]
        with pytest.raises(TimeoutError):
            child.receive(within_s=0.1)
        child.deadline = time.monotonic() + 0.1
        with pytest.raises(TimeoutError):
            child.receive()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with started(works.write_file, path=str(tmp_path / "large")) as child:
        assert child.receive() == {"refused": "File too large"}


def test_a_bug_is_told_with_its_traceback_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with started(works.fail) as child, pytest.raises(ChildBug, match="unexpected and secret"):
        child.receive()
    assert capfd.readouterr() == ("", "")


def test_a_message_without_end_is_not_taken_in() -> None:
    with started(works.flood) as child, pytest.raises(ChildLost):
        child.receive()


@linux
def test_the_child_dies_with_its_parent_even_if_that_is_killed() -> None:
    code = (
        "import time\nfrom rooflens.tests.system.tools.isolation import works\n"
        "with works.started(works.burn) as child:\n    print(child.receive()['pid'], flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    gone(pid)


def gone(*pids: int, within_s: float = END_S) -> None:
    """Wait until the processes are gone; AssertionError, and their end, otherwise."""
    until = time.monotonic() + within_s
    while alive := [pid for pid in pids if running(pid)]:
        if time.monotonic() > until:
            for pid in alive:
                os.kill(pid, 9)
            raise AssertionError(f"still running: {alive}")
        time.sleep(0.02)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
