"""Which kind of shared store an address means."""

from __future__ import annotations

from ..store import Store
from .address import Bucket, parse_address
from .remote_store import RemoteStore
from .s3 import S3Objects


def open_remote_store(address: str, *, read_only: bool = False) -> Store:
    """The store behind an address; nothing is reached before something is asked of it. Raises BadArgument."""
    place = parse_address(address)
    if isinstance(place, Bucket):
        return RemoteStore(str(place), lambda: S3Objects(place), read_only=read_only)
    from .lake_store import LakeStore

    return LakeStore(place, read_only=read_only)
