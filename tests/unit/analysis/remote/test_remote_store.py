"""What a shared store keeps on this machine, with a folder in the place of a bucket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflens.analysis.store.manifest import Manifest
from rooflens.analysis.store.remote.objects import Folder
from rooflens.analysis.store.remote.remote_store import MARKERS, RemoteStore, marker


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteStore:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = Folder(tmp_path / "shared")
    for number in range(2):
        one = Manifest(id=f"{number:016d}", name=f"w{number}", format="f")
        place.create(marker(one.id), one.model_dump_json().encode())
    return RemoteStore("s3://lens", lambda: place)


def test_a_listing_leaves_what_other_processes_write_at_the_same_time(shared: RemoteStore) -> None:
    shared.scan()
    folder = shared.root / MARKERS
    draft, fresh, stale = (folder / name for name in ("x.draft", f"{2:016d}.ab.json", f"{3:016d}.ab.json"))
    for file in (draft, fresh, stale):
        file.write_text("{}")
    os.utime(stale, (0, 0))
    os.utime(draft, (0, 0))
    assert len(shared.scan()[0]) == 2
    assert draft.exists() and fresh.exists() and not stale.exists()


def test_a_manifest_that_another_process_removed_here_is_brought_again(shared: RemoteStore) -> None:
    listed = shared._manifest_versions()
    manifests = iter(shared._manifests(listed))
    found = [next(manifests)]
    for file in (shared.root / MARKERS).iterdir():
        file.unlink()
    found += manifests
    assert [one.name for one in found if isinstance(one, Manifest)] == ["w0", "w1"]


def test_deleting_goes_on_after_a_folder_that_is_gone(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    place.create("b/file", b"")
    place.delete(["a/file", "b/file"])
    assert not (tmp_path / "b").exists()
