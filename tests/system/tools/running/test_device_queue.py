"""The queue of a device: order of arrival, dead owners, and a folder that nobody else can write to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import NotAllowed
from rooflens.tools.running.device_queue import QueuePlace, lock_folder


def test_turns_go_in_order_of_arrival(tmp_path: Path) -> None:
    first, second, third = (QueuePlace(tmp_path, "gpu", f"run-{n}") for n in "abc")
    assert [t.ahead() for t in (third, second, first)] == [2, 1, 0]
    assert first.ahead() == 0, "a turn once given stays"
    first.leave()
    assert [third.ahead(), second.ahead()] == [1, 0]
    second.leave()
    assert third.ahead() == 0
    third.leave()


def test_devices_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, other = QueuePlace(tmp_path, "GPU-1/../x", "run-a"), QueuePlace(tmp_path, "GPU-2", "run-b")
    assert one.ahead() == other.ahead() == 0
    assert sorted(p.parent for p in tmp_path.iterdir()) == [tmp_path] * 4, "a device name is no path"
    one.leave()
    other.leave()


def test_a_dead_owner_blocks_nobody(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from rooflens.tools.running.device_queue import QueuePlace;"
        "t = QueuePlace(Path(sys.argv[1]), 'gpu', 'run-dead'); assert t.ahead() == 0; os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    assert len(list((tmp_path / "gpu.queue").iterdir())) == 1
    turn = QueuePlace(tmp_path, "gpu", "run-next")
    assert turn.ahead() == 0
    turn.leave()
    assert not list((tmp_path / "gpu.queue").iterdir())


def test_locks_live_in_the_users_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert lock_folder() == str(tmp_path / "rooflens")
    assert (tmp_path / "rooflens").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "open", "file"])
def test_a_folder_that_others_could_have_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    place = tmp_path / "rooflens"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    elif kind == "open":
        place.mkdir()
        place.chmod(0o777)
    else:
        place.write_text("")
    with pytest.raises(NotAllowed, match="only this user can write to"):
        lock_folder()


def test_without_a_runtime_folder_the_users_number_is_in_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert lock_folder() == f"/tmp/rooflens-{os.getuid()}"
