"""`rooflens import`: every profile that is named or lies below a folder, with a line each, and the status of all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.terminal.outcome import OK, REFUSED, USAGE
from rooflens.tests import ROOT

SAMPLES = ROOT / "server" / "samples"


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with three profiles at different depths, and a folder without any."""
    folder = tmp_path / "many"
    for name in ("yax_after", "yax_before"):
        shutil.copytree(SAMPLES / name, folder / name)
    shutil.copytree(SAMPLES / "clover", folder / "deeper" / "clover")
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("nothing to import")
    return folder


def names(store: Path) -> list[str]:
    return sorted(manifest.name for manifest in Store(store).scan()[0])


def run(capsys: pytest.CaptureFixture[str], store: Path, *words: str) -> tuple[int, str, str]:
    status = main(["import", "--store", str(store), *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_folder_of_profiles_is_imported_one_by_one(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, tmp_path / "store", str(many))
    assert status == OK and names(tmp_path / "store") == ["clover", "yax_after", "yax_before"]
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["imported", "imported", "imported", "3"]
    assert lines[-1] == "3 of 3 profiles imported" and "1 launch, 1 kernel, 60 counters" in lines[2]


def test_paths_and_patterns_that_no_shell_expanded(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{many}/*_before", f"{many}/deeper/clover", "--name", "run", "--json"]
    status, out, _ = run(capsys, tmp_path / "store", *words)
    assert status == OK and names(tmp_path / "store") == ["run/clover", "run/yax_before"]
    answered = json.loads(out)
    assert [one["name"] for one in answered["imported"]] == ["run/yax_before", "run/clover"]
    assert answered["failed"] == []


def test_one_failure_fails_and_the_others_are_imported(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(many / "nothing"), str(many / "yax_before")]
    status, out, err = run(capsys, tmp_path / "store", *words)
    assert status == REFUSED and names(tmp_path / "store") == ["yax_before"] and err == ""
    assert out.splitlines()[0] == f"failed    {many / 'nothing'}" and "1 of 2 profiles imported" in out
    status, out, err = run(capsys, tmp_path / "store", *words, "--json")
    assert status == REFUSED and json.loads(out)["failed"][0]["code"] == "not_found" and err == ""
    status, out, err = run(capsys, tmp_path / "store", *words, "--csv")
    assert status == REFUSED and "does not exist" in out.splitlines()[1]


def test_one_profile_is_described_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, tmp_path / "store", str(SAMPLES / "clover"), "--name", "mine")
    assert status == OK and "Imported as mine" in out and "read as rocprof-compute" in out
    status, out, err = run(capsys, tmp_path / "store", str(tmp_path / "nothing"))
    assert (status, out) == (REFUSED, "") and "does not exist" in err


def test_a_folder_without_profiles_is_one_failure(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, tmp_path / "store", str(many / "notes"), "--json")
    answered = json.loads(out)
    assert status == REFUSED and answered["imported"] == [] and answered["failed"][0]["code"] == "bad_input"


def test_wrong_arguments_are_told_before_anything_is_imported(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, tmp_path / "store")[0] == USAGE
    status, _, err = run(capsys, tmp_path / "store", str(many), "nme=x")
    assert status == USAGE and "Near names: name" in err and not (tmp_path / "store").exists()


def test_a_profile_that_is_imported_again_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(ROOT / "server" / "samples" / "clover")
    said = []
    for _ in range(2):
        assert main(["--store", str(tmp_path / "store"), "import", sample]) == 0
        said.append("seems to be in the store already, as clover" in capsys.readouterr().out)
    assert said == [False, True]
