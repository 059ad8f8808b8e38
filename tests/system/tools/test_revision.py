"""Commit and branch of a profile: from a real Git work tree's files, else the CI job, and nothing where not wanted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tools.import_profile import import_profile
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running.program_revision import _DATA, RECORD, revision

SAMPLE = ROOT / "server" / "samples" / "clover"
OTHER = "f" * 40


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for commit, branches in _DATA["commits"].items():
        for name in (commit, *branches):
            monkeypatch.delenv(name, raising=False)


def git(folder: Path, *arguments: str) -> str:
    named = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=trunk"]
    done = subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    if not shutil.which("git"):
        pytest.skip("needs git")
    folder = tmp_path / "tree"
    (folder / "deep" / "er").mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


def test_a_work_tree_tells_its_commit_and_branch_from_any_folder_inside(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    assert revision(tree) == revision(tree / "deep" / "er") == (head, "trunk")
    git(tree, "pack-refs", "--all")
    assert revision(tree) == (head, "trunk")
    git(tree, "checkout", "-q", "-b", "feature/x")
    assert revision(tree) == (head, "feature/x")
    git(tree, "worktree", "add", "-q", "-b", "side", "../side")
    assert revision(tree.parent / "side") == (head, "side")
    git(tree, "checkout", "-q", "--detach")
    assert revision(tree) == (head, None)


def test_a_job_states_what_the_tree_does_not(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(tree, "rev-parse", "HEAD")
    git(tree, "checkout", "-q", "--detach")
    monkeypatch.setenv("CI_COMMIT_SHA", head)
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "merge-me")
    assert revision(tree) == revision() == (head, "merge-me")
    monkeypatch.setenv("CI_COMMIT_SHA", OTHER)
    assert revision(tree) == (head, None), "a program in another tree than the job's"
    monkeypatch.setenv("CI_COMMIT_SHA", "not a commit; rm -rf /")
    assert revision() == (None, None)


@pytest.mark.parametrize(
    ("variables", "branch"),
    [
        ({"GIT_COMMIT": OTHER, "GIT_BRANCH": "origin/PR-7", "BRANCH_NAME": "PR-7", "CHANGE_BRANCH": "fix/x"}, "fix/x"),
        ({"GIT_COMMIT": OTHER, "GIT_BRANCH": "origin/fix/x", "GIT_LOCAL_BRANCH": "fix/x"}, "fix/x"),
        (
            {"BUILD_SOURCEVERSION": OTHER, "BUILD_SOURCEBRANCH": "refs/pull/1/merge",
             "SYSTEM_PULLREQUEST_SOURCEBRANCH": "refs/heads/fix/x"},
            "fix/x",
        ),
        ({"GITHUB_SHA": OTHER, "GITHUB_REF_NAME": "origin/main"}, "origin/main"),
    ],
)  # fmt: skip
def test_a_branch_is_called_as_in_the_work_tree_whatever_ci_calls_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], branch: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert revision() == (OTHER, branch)


def test_nothing_is_recorded_where_it_is_not_wanted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", OTHER)
    monkeypatch.setenv(RECORD, "0")
    assert revision(tree) == revision() == (None, None)


@pytest.mark.parametrize("head", ["ref: ../../../../etc/passwd", "ref: /etc/passwd", "\x00" * 99, "x" * 10_000, "ref:"])
def test_a_hostile_tree_tells_nothing(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert revision(tmp_path).commit is None


def test_an_import_in_a_job_can_be_asked_for_by_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", OTHER)
    monkeypatch.setenv("GITHUB_HEAD_REF", "")
    monkeypatch.setenv("GITHUB_REF_NAME", "main\x1b[31m")
    store = Store(tmp_path)
    import_profile(store, str(SAMPLE))
    assert query_counters(store, "SELECT commit, branch FROM workloads").table.rows == [[OTHER, "main"]]
