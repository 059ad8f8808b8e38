"""A shared store with a DuckLake catalogue, which lists the workloads and answers SQL over all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial

from ..manifest import MANIFEST_BYTES, Manifest
from ..store import DistantWorkloads, Store
from ..wording import problem
from .address import Bucket, Lake, parse_address
from .catalogue import Catalogue
from .remote_store import RemoteStore, StoredWorkload, cache_folder, marker, parse_manifest
from .s3 import S3Objects

_FEW = 4
"""Up to this many workloads are copied, which also helps later queries, instead of read remotely."""


class LakeStore(RemoteStore):
    """Files in a bucket or a shared folder, registered by transactions in a catalogue."""

    def __init__(self, place: Lake, *, read_only: bool = False) -> None:
        self.catalogue = Catalogue(place, cache_folder(str(place)) / "tmp")
        super().__init__(str(place), self.catalogue.data, read_only=read_only)

    def distant(self, manifests: Sequence[Manifest]) -> DistantWorkloads | None:
        missing = self.missing(manifests)
        extract = partial(self.catalogue.extract, [m.id for m in missing])
        return DistantWorkloads(missing, extract, self.catalogue.columns) if len(missing) > _FEW else None

    def _manifest_versions(self) -> dict[str, str]:
        return self.catalogue.manifest_versions()

    def _direct(self, reference: str) -> Manifest | None:
        if (version := self.catalogue.manifest_versions(reference).get(reference)) is None:
            return None
        content = self.objects.read(marker(reference), MANIFEST_BYTES)
        if content is None:
            return None
        self._check_marker(content, version, reference)
        return parse_manifest(content, reference)

    def _check_marker(self, content: bytes, version: str, id: str) -> None:
        if hashlib.sha256(content).hexdigest() != version:
            raise problem("replaced_manifest", id=id, place=marker(id))

    def _announce(self, stored: Sequence[StoredWorkload]) -> list[bool]:
        return self.catalogue.add({one.version: one.manifest for one in stored}, self.objects)

    def _restate(self, manifest: Manifest, version: str, put: Callable[[], None]) -> None:
        self.catalogue.restate(manifest, version, put)

    def _forget(self, ids: Sequence[str]) -> None:
        self.catalogue.remove(ids)
        super()._forget(ids)


def open_remote_store(address: str, *, read_only: bool = False) -> Store:
    """The store at an address; it is not accessed until first use. Raises BadArgument."""
    place = parse_address(address)
    if isinstance(place, Bucket):
        return RemoteStore(str(place), lambda: S3Objects(place), read_only=read_only)
    return LakeStore(place, read_only=read_only)
