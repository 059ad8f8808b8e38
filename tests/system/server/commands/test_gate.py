"""rooflens gate: exit statuses, which workloads are meant, and the files that it writes."""

from __future__ import annotations

import json
import os
import stat
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.analysis.comparison.gate_limits import GateLimits
from rooflens.analysis.store.store import Manifest, Store
from rooflens.server.cli import main
from rooflens.server.commands import command
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


def test_the_help_states_the_defaults() -> None:
    parser = ArgumentParser()
    command("gate").arguments(parser)
    told = " ".join(parser.format_help().split())
    assert f"a kernel may be (default {100 * GateLimits().max_regression:g}%)" in told
    assert f"time (default {100 * GateLimits().min_share:g}%)" in told
    assert f"(default: exit status {outcome.INCONCLUSIVE})" in told


def test_exit_statuses(filled: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, status in (
        (("main", "branch"), outcome.OK),
        (("main", "slow"), outcome.REGRESSED),
        (("main", "slow", "--max-regression", "20%"), outcome.OK),
        (("main", "few"), outcome.INCONCLUSIVE),
        (("main", "few", "--inconclusive", "pass"), outcome.OK),
        (("main", "few", "--inconclusive", "fail"), outcome.REGRESSED),
        (("main", "nothing"), outcome.REFUSED),
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


def test_the_summary_is_written_whole_and_words_end_with_the_verdict(
    filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.md").write_text("old")
    words = ["gate", "main", "slow", "--markdown", str(tmp_path / "s.md"), "--store", str(filled[0].root)]
    assert main(words) == outcome.REGRESSED
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("FAIL") for line in lines)
    assert any(line.startswith("fail: 2 fail") for line in lines)
    assert (tmp_path / "s.md").read_text(encoding="utf-8").startswith("## ❌ rooflens gate: main")
    assert [p.name for p in tmp_path.iterdir()] == ["s.md"], "no draft stays"


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


def test_a_file_that_cannot_be_written_is_a_refusal(
    filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = told(capsys, filled, "main", "branch", "--markdown", str(tmp_path / "no" / "s.md"))
    assert status == outcome.REFUSED and found["error"]["code"] == "store_problem"


def test_limits_of_a_file_count(filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('max_regression = "20%"\n[[kernel]]\npattern = "^a$"\nmax_regression = "5%"\n')
    status, found = told(capsys, filled, "main", "slow", "--limits", str(file))
    assert status == outcome.REGRESSED
    assert {i["kind"]: i["status"] for i in found["items"]} == {"program": "pass", "kernel": "fail"}


def test_an_undecided_result_that_counts_as_another_says_so_everywhere(
    filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = "pass"
    summary, store = tmp_path / "summary.md", str(filled[0].root)
    words = ["gate", "main", "few", "--inconclusive", choice, "--markdown", str(summary), "--store", store]
    main(words)
    printed, said = capsys.readouterr().out, f"Nothing was decided: --inconclusive {choice}"
    assert printed.count(said) == 1
    assert f"**{said}" in summary.read_text()
    _, facts = told(capsys, filled, "main", "few", "--inconclusive", choice)
    assert (facts["verdict"], facts["decided_as"]) == ("inconclusive", choice)
