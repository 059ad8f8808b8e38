"""Addresses of shared stores, ``s3://bucket/prefix`` and ``ducklake:...``, which never contain a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...base.problems import BadArgument

S3, DUCKLAKE = "s3://", "ducklake:"
_POSTGRES = "postgres:"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[\w.=+-]+(/[\w.=+-]+)*")
_SECRET = re.compile(r"(?i)\b(\w*(?:password|passwd|secret|token))(\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)")
_LOGIN = re.compile(r"(//[^\s/@:]*):[^\s@]*@")
_URI = re.compile(r"postgres(ql)?://")
_LONGEST = 1000


@dataclass(frozen=True)
class Bucket:
    """A place in S3-compatible storage."""

    name: str
    prefix: str
    """Empty, or ending in a slash."""

    def __str__(self) -> str:
        return f"{S3}{self.name}/{self.prefix}".rstrip("/")


@dataclass(frozen=True)
class Lake:
    """A DuckLake catalogue in PostgreSQL or, for trials, in a DuckDB file, which only one process at a time can
    open."""

    connection: str
    """The connection string for libpq (``dbname=lake host=db``), or the path of the file."""
    postgres: bool

    def __str__(self) -> str:
        return f"{DUCKLAKE}{_POSTGRES if self.postgres else ''}{self.connection}"


def parse_address(text: str) -> Bucket | Lake:
    """Parse an address. Raises BadArgument if it is invalid or contains a password."""
    if len(text) > _LONGEST or mask_secrets(text) != text:
        raise BadArgument(
            f"The store {mask_secrets(text)[:200]} contains a password, or is not a valid address",
            "addresses are shown, logged and stored",
            "Omit it: S3 uses AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws, PostgreSQL uses PGPASSWORD "
            "or ~/.pgpass",
        )
    if text.startswith(S3):
        return bucket(text)
    connection_text = text.removeprefix(DUCKLAKE)
    is_uri = _URI.match(connection_text)
    connection = connection_text.removeprefix(_POSTGRES).strip()
    if connection_text.startswith(_POSTGRES) and not is_uri and not _URI.match(connection):
        return Lake(connection, postgres=True)
    if is_uri or not connection_text or connection_text.startswith((_POSTGRES, "sqlite:", "mysql:", "duckdb:")):
        raise BadArgument(
            f"The store {text[:200]} is not the address of a catalogue",
            "a catalogue is in PostgreSQL or in a DuckDB file",
            "Write ducklake:postgres:dbname=NAME host=HOST, or for a trial on one machine ducklake:FILE.ducklake",
        )
    return Lake(str(Path(connection_text).expanduser().absolute()), postgres=False)


def bucket(text: str) -> Bucket:
    """The bucket and prefix of ``s3://bucket/prefix``. Raises BadArgument for anything else."""
    name, _, prefix = text.removeprefix(S3).partition("/")
    prefix = prefix.strip("/")
    if not text.startswith(S3) or not _BUCKET.fullmatch(name) or (prefix and not _PREFIX.fullmatch(prefix)):
        raise BadArgument(
            f"{mask_secrets(text)[:200]} is not a valid place in a bucket",
            "a bucket's name has lower-case letters, digits, dots and dashes; a prefix letters, digits and -_.=+/",
            "Write s3://BUCKET or s3://BUCKET/PREFIX; the endpoint goes into AWS_ENDPOINT_URL",
        )
    return Bucket(name, f"{prefix}/" if prefix else "")


def mask_secrets(text: str) -> str:
    """``text`` with all passwords of addresses and connection strings masked."""
    return _LOGIN.sub(r"\1:***@", _SECRET.sub(r"\1\2***", text))
