"""Objects in S3-compatible storage through boto3, with its usual configuration of credentials, region and endpoint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.extensions import install_command, packages_of
from ...base.problems import Problem, Unreachable, command_advice
from ..wording import WORDINGS, problem
from .address import Bucket
from .objects import Folder, missing, wrong_size

if TYPE_CHECKING:
    import duckdb

CONNECTIONS = 16
_CONNECT_S, _READ_S, _ATTEMPTS = 5, 10, 2
_PIECE = 1 << 20
_A_LISTING = 1000
"""The most keys that one S3 request lists or deletes."""
_MOST_LISTINGS = 1100
"""The most pages of a listing; a server could continue it for ever."""
_SHA256 = "sha256"
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_UNCONDITIONAL = ("NotImplemented", "501")
"""Error codes of servers without conditional writes."""
_ABSENT = ("NoSuchKey", "404", "NotFound")
_KEYS = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with ~/.aws"


class S3Objects:
    """The objects of one bucket below a prefix; boto3 clients are thread-safe."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.place = f"{bucket}/"

    @cached_property
    def _session(self) -> Any:
        try:
            import boto3
        except ImportError as error:
            fix = command_advice("Install it", install_command(*packages_of("s3")))
            raise problem("no_boto3", fix=fix) from error
        return boto3.Session(region_name=os.environ.get("AWS_REGION"))  # boto3 reads AWS_DEFAULT_REGION alone

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        with self._problems():
            settings = Config(
                connect_timeout=_CONNECT_S,
                read_timeout=_READ_S,
                retries={"max_attempts": _ATTEMPTS, "mode": "standard"},
                max_pool_connections=CONNECTIONS,
                # Servers other than Amazon's may not support newer checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                user_agent_extra="rooflens",
            )
            region = self._session.region_name or "us-east-1"
            return self._session.client("s3", config=settings, region_name=region)

    def listing(self, prefix: str) -> dict[str, str]:
        versions = {}
        with self._problems():
            pages = self._client.get_paginator("list_objects_v2")
            for number, page in enumerate(pages.paginate(Bucket=self.bucket.name, Prefix=self._key(prefix))):
                if number >= _MOST_LISTINGS:
                    raise problem("endless_listing", bucket=self.bucket)
                for entry in page.get("Contents", ()):
                    key = str(entry["Key"]).removeprefix(self.bucket.prefix)
                    versions[key] = str(entry["ETag"])
        return versions

    def read(self, key: str, most: int) -> bytes | None:
        with self._problems(absent=True):
            answer = self._client.get_object(Bucket=self.bucket.name, Key=self._key(key))
            with closing(answer["Body"]) as body:
                content = bytes(body.read(most + 1))
                if len(content) > most:
                    raise problem("object_too_large", key=key, most=most)
                return content
        return None

    def fetch(self, key: str, target: Path, size: int) -> str:
        digest = hashlib.sha256()
        with self._problems(absent=True):
            answer = self._client.get_object(Bucket=self.bucket.name, Key=self._key(key))
            with closing(answer["Body"]) as body, target.open("wb") as file:
                if (stated := answer.get("ContentLength", size)) != size:
                    raise wrong_size(key, stated, size)
                # A server can send more than it states, or state nothing and never end.
                while piece := body.read(min(_PIECE, size + 1 - file.tell())):
                    digest.update(piece)
                    file.write(piece)
                if file.tell() != size:
                    raise wrong_size(key, file.tell(), size)
            return digest.hexdigest()
        raise missing(key)

    def upload(self, source: Path, key: str, sha256: str) -> None:
        from boto3.exceptions import S3UploadFailedError

        with self._problems():
            if self._size_and_checksum(key) == (source.stat().st_size, sha256):
                return
            try:
                self._client.upload_file(
                    str(source), self.bucket.name, self._key(key), ExtraArgs={"Metadata": {_SHA256: sha256}}
                )
            except S3UploadFailedError as error:
                raise (error.__context__ or error) from None

    def create(self, key: str, content: bytes) -> bool:
        object_arguments = {"Bucket": self.bucket.name, "Key": self._key(key), "Body": content}
        with self._problems():
            try:
                self._client.put_object(**object_arguments, IfNoneMatch="*", ContentType="application/json")
            except self._client.exceptions.ClientError as error:
                code = error.response["Error"]["Code"]
                if code in _TAKEN:
                    return False
                if code not in _UNCONDITIONAL:
                    raise
                # Ids are random, so two writers of one key push the same workload.
                if self._size_and_checksum(key) is not None:
                    return False
                self._client.put_object(**object_arguments, ContentType="application/json")
        return True

    def delete(self, keys: Iterable[str]) -> None:
        pending = [{"Key": self._key(key)} for key in keys]
        with self._problems():
            for first in range(0, len(pending), _A_LISTING):
                part = {"Objects": pending[first : first + _A_LISTING], "Quiet": True}
                failed = self._client.delete_objects(Bucket=self.bucket.name, Delete=part).get("Errors", ())
                for error in failed:
                    raise self._refusal(str(error.get("Code")))

    def secret(self, con: duckdb.DuckDBPyConnection, name: str) -> None:
        """Let an internal DuckDB connection read the bucket with the same credentials, kept in memory only."""
        with self._problems():
            credentials = self._session.get_credentials()
            if credentials is None:
                raise self._without_credentials()
            keys = credentials.get_frozen_credentials()
            endpoint = str(self._client.meta.endpoint_url)
            region = str(self._client.meta.region_name)
        scheme, _, host = endpoint.partition("://")
        values = {"KEY_ID": keys.access_key, "SECRET": keys.secret_key, "REGION": region, "SCOPE": f"{self.bucket}"}
        if keys.token:
            values["SESSION_TOKEN"] = keys.token
        if not host.endswith("amazonaws.com"):
            values |= {"ENDPOINT": host, "URL_STYLE": "path"}
        options = ", ".join(f"{option} '{value.replace(chr(39), chr(39) * 2)}'" for option, value in values.items())
        con.execute(f"CREATE OR REPLACE SECRET {name} (TYPE s3, {options}, USE_SSL {scheme == 'https'})")

    def _key(self, key: str) -> str:
        return self.bucket.prefix + key

    def _size_and_checksum(self, key: str) -> tuple[int, str | None] | None:
        """The size and checksum of the object under a key, or None if there is none."""
        from botocore.exceptions import ClientError

        try:
            answer = self._client.head_object(Bucket=self.bucket.name, Key=self._key(key))
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise
        return int(answer["ContentLength"]), answer["Metadata"].get(_SHA256)

    @contextmanager
    def _problems(self, *, absent: bool = False) -> Iterator[None]:
        """Convert boto3 errors to StoreProblems by type and code; with ``absent``, a missing key is not an error."""
        self._session  # noqa: B018 - says what to install
        from botocore import exceptions

        place = self._client.meta.endpoint_url if "_client" in self.__dict__ else "the endpoint"
        try:
            yield
        except exceptions.ClientError as error:
            code = str(error.response["Error"]["Code"])
            if absent and code in _ABSENT:
                return
            raise self._refusal(code) from None
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise self._without_credentials() from error
        except (exceptions.ProfileNotFound, exceptions.ConfigParseError) as error:
            raise Unreachable(self._unreachable, "~/.aws cannot be used as it is", _KEYS) from error
        except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
            raise Unreachable(
                self._unreachable,
                f"{place} does not answer, or not in time ({type(error).__name__})",
                "Check the network and AWS_ENDPOINT_URL",
            ) from None
        except (exceptions.BotoCoreError, ValueError) as error:
            # Its message may contain credentials.
            why = f"boto3 could not use its settings ({type(error).__name__})"
            raise Unreachable(self._unreachable, why, "Check AWS_ENDPOINT_URL and AWS_REGION") from None

    def _refusal(self, code: str) -> Problem:
        known = f"s3_{code}" if f"s3_{code}" in WORDINGS.entries else "s3_refused"
        return WORDINGS.problem(known, bucket=self.bucket.name, code=code[:60])

    @property
    def _unreachable(self) -> str:
        return f"The bucket {self.bucket.name} cannot be reached"

    def _without_credentials(self) -> Unreachable:
        return Unreachable(self._unreachable, "no credentials were found", _KEYS)


Objects = Folder | S3Objects
"""Files under keys; ``Folder`` describes the methods."""
