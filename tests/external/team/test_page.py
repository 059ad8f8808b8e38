"""The blocks of the page on shared stores that need a bucket or PostgreSQL do what the page says, on loopback."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.tests.external.team.conftest import postgres_program
from rooflens.tests.system.docs.reader import ROOT, Block, Reader, blocks

PAGE = ROOT / "docs" / "how-to" / "team_store.md"
SERVER = "serve"
"""The command that does not end."""


def _blocks(word: str, replaced: dict[str, str]) -> list[Block]:
    """The block that is not run on its page and contains ``word``, with other addresses and without the server."""
    (block,) = (one for one in blocks(PAGE.read_text(encoding="utf-8")) if not one.runs and word in one.text)
    text = "".join(line for line in block.text.splitlines(keepends=True) if not line.rstrip().endswith(SERVER))
    for shown, here in replaced.items():
        assert shown in text
        text = text.replace(shown, here)
    return [dataclasses.replace(block, text=text, marks=())]


@pytest.fixture
def reader(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader with a bucket called profiles, and one workload of the branch main in both stores of the page."""
    import boto3

    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="profiles")
    reader = Reader(tmp_path, monkeypatch, Store(tmp_path / "samples"))
    command = tmp_path / "bin" / "rooflens"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rooflens "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/local/bin:/usr/bin:/bin")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_SHA", "c" * 40)
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    home = tmp_path / "home" / ".local" / "share" / "rooflens"
    for store in (tmp_path / "store", home):
        assert main(["import", str(ROOT / "server" / "samples" / "yax_before"), "--store", str(store)]) == 0
    return reader


def test_the_block_on_a_bucket_pushes_and_lists(reader: Reader, s3_endpoint: str) -> None:
    assert reader.follow(_blocks("s3.example.org", {"https://s3.example.org": s3_endpoint})) == 3
    assert "yax_before" in reader.run("rooflens --store s3://profiles/team call list_workloads")


def test_the_block_on_a_catalogue_creates_it_and_lists_what_was_pushed(reader: Reader, postgres: str) -> None:
    for name, value in (part.split("=") for part in postgres.split()):
        reader.patch.setenv(f"PG{name.upper()}", value)
    (reader.folder / "bin" / "createdb").symlink_to(postgres_program("createdb"))
    assert reader.follow(_blocks("createdb", {"host=db.example.org": postgres})) == 5
    assert "yax_before" in reader.run("rooflens ls")
