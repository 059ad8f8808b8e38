"""Addresses of shared stores, ``s3://bucket/prefix`` and ``ducklake:...``, which never contain a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..wording import problem

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
        raise problem("address_with_password", text=mask_secrets(text)[:200])
    if text.startswith(S3):
        return bucket(text)
    connection_text = text.removeprefix(DUCKLAKE)
    is_uri = _URI.match(connection_text)
    connection = connection_text.removeprefix(_POSTGRES).strip()
    if connection_text.startswith(_POSTGRES) and not is_uri and not _URI.match(connection):
        return Lake(connection, postgres=True)
    if is_uri or not connection_text or connection_text.startswith((_POSTGRES, "sqlite:", "mysql:", "duckdb:")):
        raise problem("bad_catalogue_address", text=text[:200])
    return Lake(str(Path(connection_text).expanduser().absolute()), postgres=False)


def bucket(text: str) -> Bucket:
    """The bucket and prefix of ``s3://bucket/prefix``. Raises BadArgument for anything else."""
    name, _, prefix = text.removeprefix(S3).partition("/")
    prefix = prefix.strip("/")
    if not text.startswith(S3) or not _BUCKET.fullmatch(name) or (prefix and not _PREFIX.fullmatch(prefix)):
        raise problem("bad_bucket_address", text=mask_secrets(text)[:200])
    return Bucket(name, f"{prefix}/" if prefix else "")


def mask_secrets(text: str) -> str:
    """``text`` with all passwords of addresses and connection strings masked."""
    return _LOGIN.sub(r"\1:***@", _SECRET.sub(r"\1\2***", text))
