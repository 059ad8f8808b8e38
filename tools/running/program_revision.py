"""Which commit and branch were checked out: read from the files of a Git work tree, or from a CI job's variables.

No program is run. Changes that were not committed are not seen.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from ...analysis.store.manifest import read_small
from ..base.untrusted_text import plain_text

RECORD = "ROOFLENS_RECORD_COMMIT"
"""Variable that, set to 0, has neither recorded."""
_VARIABLES = (
    ("GITHUB_SHA", ("GITHUB_HEAD_REF", "GITHUB_REF_NAME")),
    ("CI_COMMIT_SHA", ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME")),
    ("BUILDKITE_COMMIT", ("BUILDKITE_BRANCH",)),
    ("CIRCLE_SHA1", ("CIRCLE_BRANCH",)),
    ("BUILD_SOURCEVERSION", ("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH")),
    ("GIT_COMMIT", ("CHANGE_BRANCH", "GIT_LOCAL_BRANCH", "BRANCH_NAME", "GIT_BRANCH")),
)
"""Of GitHub, GitLab, Buildkite, CircleCI, Azure Pipelines and Jenkins: the commit, and the branch; of a pull request
the branch that it comes from."""
_REMOTE = {"GIT_BRANCH": "origin/"}
"""Variables whose branches begin with the name of the remote, as Git's plugin of Jenkins writes them."""
_HEADS = "refs/heads/"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_HEAD, _PACKED = 4096, 16 << 20
"""Bytes of a file of Git that are read at most."""
_BRANCH, _DEEPEST = 200, 64


class Revision(NamedTuple):
    """A commit, whole, and a branch; None where not known."""

    commit: str | None = None
    branch: str | None = None


def revision(folder: str | Path | None = None) -> Revision:
    """Of the work tree around ``folder``, where one is given and there is one, else of the CI job."""
    if os.environ.get(RECORD) == "0":
        return Revision()
    job = _of_job()
    tree = _of_tree(Path(folder)) if folder else Revision()
    if tree.commit is None:
        return job
    # What CI checks out has no branch.
    return tree if tree.branch or tree.commit != job.commit else job


def _of_job() -> Revision:
    for commit, branches in _VARIABLES:
        if _COMMIT.fullmatch(value := os.environ.get(commit, "").strip().lower()):
            named = (os.environ.get(name, "").strip().removeprefix(_REMOTE.get(name, "")) for name in branches)
            return Revision(value, _branch(next((name for name in named if name), "")))
    return Revision()


def _of_tree(folder: Path) -> Revision:
    try:
        home = next((p / ".git" for p in [folder, *folder.parents][:_DEEPEST] if (p / ".git").exists()), None)
        if home is None:
            return Revision()
        if home.is_file():  # of a further work tree or a submodule
            home = home.parent / _text(home).removeprefix("gitdir:").strip()
        shared = home / _text(home / "commondir") if (home / "commondir").is_file() else home
        head = _text(home / "HEAD")
        if not head.startswith("ref:"):
            return Revision(head if _COMMIT.fullmatch(head) else None)
        name = head.removeprefix("ref:").strip()
        return Revision(_reference(home, shared, name), _branch(name))
    except (OSError, ValueError):
        return Revision()


def _reference(home: Path, shared: Path, name: str) -> str | None:
    """The commit that a reference stands for, in a file of its own or among the packed ones."""
    if ".." in name or name.startswith("/"):
        return None
    for place in (home, shared):
        if (place / name).is_file():
            text = _text(place / name)
            return text if _COMMIT.fullmatch(text) else None
    for line in _text(shared / "packed-refs", _PACKED).splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name and _COMMIT.fullmatch(commit):
            return commit
    return None


def _text(path: Path, most: int = _HEAD) -> str:
    return read_small(path, most).decode("utf-8", "replace").strip()


def _branch(name: str) -> str | None:
    return plain_text(name.removeprefix(_HEADS), _BRANCH) or None
