"""Scratch folders: closed to others, gone after use, and gone after the death of who made them."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from rooflens.analysis.base import temporary_files
from rooflens.analysis.base.problems import MissingTool
from rooflens.analysis.base.temporary_files import scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of the test's own, for children too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def home(temporary: Path) -> Path:
    return temporary / f"rooflens-{os.geteuid()}"


def test_a_scratch_folder_is_closed_to_others_and_goes_with_its_content(temporary):
    with scratch() as folder:
        (folder / "below").mkdir()
        (folder / "below" / "file").write_text("x")
        assert folder.parent == home(temporary)
        assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    assert list(home(temporary).iterdir()) == []


def test_a_failure_inside_leaves_nothing(temporary):
    with pytest.raises(ZeroDivisionError), scratch() as folder:
        (folder / "file").write_text("x")
        raise ZeroDivisionError
    assert list(home(temporary).iterdir()) == []


def test_a_reused_process_number_does_not_keep_what_the_dead_left(temporary):
    with scratch():
        pass
    place, pid, start, _ = temporary_files.mark().split("-")
    earlier = home(temporary) / f"{place}-{pid}-{int(start) - 1}-{'0' * 12}"
    earlier.mkdir()
    with scratch() as mine:
        assert list(home(temporary).iterdir()) == [mine]


def test_what_another_machine_or_boot_left_goes_after_a_day(temporary):
    with scratch():
        pass
    young, old = (home(temporary) / f"{'0' * 12}-1-1-{digit * 12}" for digit in "ab")
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, (time.time() - 100_000,) * 2)
    with scratch() as mine:
        assert set(home(temporary).iterdir()) == {young, mine}


def test_a_link_that_someone_prepared_is_refused_and_not_followed(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old").mkdir()
    os.utime(elsewhere / "old", (1, 1))
    home(temporary).symlink_to(elsewhere)
    with pytest.raises(MissingTool, match="cannot be trusted"), scratch():
        pass
    assert [p.name for p in elsewhere.iterdir()] == ["old"]


def test_a_folder_of_another_user_is_refused(temporary, monkeypatch):
    home(temporary).mkdir()
    prepared, user = home(temporary), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    prepared.rename(home(temporary))
    with pytest.raises(MissingTool, match="another user"), scratch():
        pass


def test_a_folder_that_was_open_to_others_is_closed(temporary):
    home(temporary).mkdir(mode=0o777)
    home(temporary).chmod(0o777)
    with scratch() as folder:
        assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_links_inside_an_abandoned_folder_are_not_followed(temporary):
    with scratch():
        pass
    precious = temporary / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    place, *_ = temporary_files.mark().split("-")
    dead = home(temporary) / f"{place}-4194304-1-{'0' * 12}"
    dead.mkdir()
    (dead / "link").symlink_to(precious)
    (home(temporary) / f"{place}-4194304-1-{'1' * 12}").symlink_to(precious)
    with scratch() as mine:
        assert list(home(temporary).iterdir()) == [mine]
    assert (precious / "file").read_text() == "x"


def test_no_temporary_folder_is_a_problem(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    with pytest.raises(MissingTool, match="TMPDIR"), scratch():
        pass
