"""Addresses of shared stores: what they mean, and that no secret passes through one."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.store.remote.address import Bucket, Lake, mask_secrets, parse_address
from rooflens.analysis.store.store import Store


def test_an_address_means_one_place_however_it_is_written() -> None:
    assert parse_address("s3://lens") == Bucket("lens", "")
    assert parse_address("s3://lens/a/b/") == parse_address("s3://lens/a/b") == Bucket("lens", "a/b/")
    assert str(parse_address("s3://lens/a/b/")) == "s3://lens/a/b"
    assert parse_address("ducklake:postgres:dbname=x host=y") == Lake("dbname=x host=y", postgres=True)
    assert parse_address("ducklake:/tmp/x.ducklake") == Lake("/tmp/x.ducklake", postgres=False)


@pytest.mark.parametrize(
    "address",
    ["s3://", "s3://UPPER/x", "s3://b/../x y", "s3://b/a?b", "s3:///x", "ducklake:", "ducklake:sqlite:x",
     "ducklake:mysql:x", "ducklake:postgresql://host/db", "s3://b/" + "x" * 2000],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_the_form_of_one(address: str) -> None:
    with pytest.raises(BadArgument) as told:
        Store.locate(address)
    assert told.value.fix and len(told.value.text) < 1500


@pytest.mark.parametrize(
    "address",
    ["s3://key:hunter2@bucket/x", "ducklake:postgres:dbname=x password=hunter2",
     "ducklake:postgres:dbname=x PASSWORD = 'hunter2 y'", "ducklake:postgres:postgresql://u:hunter2@host/db",
     "ducklake:postgresql://u:hunter2@host/db", "ducklake:postgres:dbname=x sslpassword=hunter2",
     "ducklake:postgres:dbname=x oauth_client_secret=hunter2"],
)  # fmt: skip
def test_a_password_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(BadArgument, match="PGPASSWORD") as told:
        Store.locate(address)
    assert "hunter2" not in told.value.text and "hunter2" not in mask_secrets(f"error in {address}, retry")


def test_opening_a_shared_store_reaches_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Store.locate("s3://nobody-made-this/x", read_only=True)
    assert store.address == "s3://nobody-made-this/x" and store.read_only and not store.root.exists()
    assert Store.locate(store.address).root == store.root


@pytest.mark.parametrize("rest", ["postgres:postgresql://u@h/db", "postgres://u@h/db"])
def test_a_uri_of_postgres_is_refused_with_how_to_write_it(rest: str) -> None:
    with pytest.raises(BadArgument, match="postgres:dbname=NAME"):
        parse_address(f"ducklake:{rest}")
