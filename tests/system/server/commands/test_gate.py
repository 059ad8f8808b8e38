"""rooflens gate: exit statuses, which workloads are meant, and the files that it writes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.analysis.store.store import Manifest, Store
from rooflens.server.cli import main
from rooflens.server.terminal import outcome
from rooflens.tests.support.comparisons import launches, workload


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, list[Manifest]]]:
    """Runs of one program on main, of the same on a branch, and of a slower one."""
    store, found = Store(tmp_path_factory.mktemp("gate")), dict[str, list[Manifest]]()
    rng = np.random.default_rng(5)
    for name, ns, tags in (
        ("main", 1e6, ["main"]),
        ("main", 1e6, ["main"]),
        ("branch", 1e6, ["main"]),
        ("slow", 1.1e6, []),
        ("few", 1e6, []),
    ):
        times = list(ns * np.exp(rng.normal(0, 0.003, 2 if name == "few" else 40)))
        found.setdefault(name, []).append(workload(store, launches("a", times), name=name, tags=tags))
    return store, found


Filled = tuple[Store, dict[str, list[Manifest]]]


def told(capsys: pytest.CaptureFixture[str], filled: Filled, *argv: str) -> tuple[int, dict[str, Any]]:
    status = main(["gate", *argv, "--json", "--store", str(filled[0].root)])
    return status, json.loads(capsys.readouterr().out)


def test_exit_statuses(filled: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, status in (
        (("main", "branch"), outcome.OK),
        (("main", "slow"), outcome.REGRESSED),
        (("main", "slow", "--max-regression", "20%"), outcome.OK),
        (("main", "few"), outcome.INCONCLUSIVE),
        (("main", "few", "--inconclusive", "pass"), outcome.OK),
        (("main", "few", "--inconclusive", "fail"), outcome.REGRESSED),
        (("main", "nothing"), outcome.REFUSED),
        (("main", "branch", "--markdown", "/no/such/folder/s.md"), outcome.REFUSED),
        (("main", "slow", "--max-regression", "3"), outcome.REFUSED),
        (("main", "slow", "--runs", "0"), outcome.USAGE),
        (("main",), outcome.USAGE),
    ):
        found = told(capsys, filled, *argv)
        assert found[0] == status, (argv, found)
        if status in (outcome.OK, outcome.REGRESSED, outcome.INCONCLUSIVE):
            assert found[1]["exit_status"] == status


def test_a_tag_or_name_means_its_newest_but_never_the_candidate(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    made = filled[1]
    first, second, branch = made["main"][0].id, made["main"][1].id, made["branch"][0].id
    assert told(capsys, filled, "tag:main", "branch")[1]["baseline"] == [second]
    assert told(capsys, filled, "tag:main", "slow")[1]["baseline"] == [branch]
    assert told(capsys, filled, "tag:main", "slow", "--runs", "9")[1]["baseline"] == [branch], "no other program"
    assert told(capsys, filled, "tag:main", "branch", "--runs", "9")[1]["baseline"] == [second, first]
    assert told(capsys, filled, "main", "main")[1]["baseline"] == [first]
    assert told(capsys, filled, first, "slow", "--runs", "9")[1]["baseline"] == [first]
    status, found = told(capsys, filled, "tag:mian", "slow")
    assert status == outcome.REFUSED and "Near names: main" in found["error"]["why"]
    assert found["error"]["what"] == "No workload has the tag 'mian'"


@pytest.mark.parametrize(
    ("candidate", "status", "verdict", "headed"),
    [
        ("slow", outcome.REGRESSED, "fail: 2 fail", "## ❌ rooflens gate: main"),
        ("few", outcome.OK, "Nothing was decided: --inconclusive pass", "## "),
    ],
)
def test_the_summary_is_written_whole_and_states_the_verdict_as_words_and_facts_do(
    filled: Filled, candidate: str, status: int, verdict: str, headed: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "s.md"
    file.write_text("old")
    words = ["main", candidate, "--inconclusive", "pass", "--markdown", str(file)]
    assert main(["gate", *words, "--store", str(filled[0].root)]) == status
    assert capsys.readouterr().out.count(verdict) == 1
    text = file.read_text(encoding="utf-8")
    assert text.startswith(headed) and (candidate == "slow" or f"**{verdict}" in text)
    assert [p.name for p in tmp_path.iterdir()] == ["s.md"], "no draft stays"
    facts = told(capsys, filled, *words)[1]
    decided = ("fail", "fail") if candidate == "slow" else ("inconclusive", "pass")
    assert (facts["verdict"], facts["decided_as"]) == decided


def test_pipes_and_links_are_written_into_and_modes_stay(
    filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, kept, link = tmp_path / "pipe", tmp_path / "kept.md", tmp_path / "s.md"
    os.mkfifo(pipe)
    kept.write_text("old")
    kept.chmod(0o640)
    link.symlink_to(kept)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for target in (pipe, link):
            assert told(capsys, filled, "main", "branch", "--markdown", str(target))[0] == outcome.OK
        assert "rooflens gate: main" in os.read(reader, 60_000).decode()
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and link.is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640 and "rooflens gate: main" in kept.read_text(encoding="utf-8")


def test_an_output_that_leads_to_a_file_gets_the_summary_and_the_verdict(
    filled: Filled, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["gate", "--store", str(filled[0].root), "main", "branch", "--markdown", "/dev/stdout"])
    text = capfd.readouterr().out
    assert text.startswith("## ") and "PASS " in text.split("| why |")[1], "the table, then the lines"


def test_the_summary_of_a_job_is_added_to_what_its_step_said_before(
    filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary"
    summary.write_text("built\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for _ in range(2):
        assert told(capsys, filled, "main", "branch", "--markdown", str(summary))[0] == outcome.OK
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("built\n") and text.count("rooflens gate: main") == 2


def test_limits_of_a_file_count(filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('max_regression = "20%"\n[[kernel]]\npattern = "^a$"\nmax_regression = "5%"\n')
    status, found = told(capsys, filled, "main", "slow", "--limits", str(file))
    assert status == outcome.REGRESSED
    assert {i["kind"]: i["status"] for i in found["items"]} == {"program": "pass", "kernel": "fail"}
