"""An S3 server that lies, redirects or never ends: nothing is followed, believed or filled, and no secret is told."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import StoreProblem
from rooflens.analysis.store.remote import s3 as s3_module
from rooflens.analysis.store.remote.address import Bucket
from rooflens.analysis.store.remote.s3 import S3Objects
from rooflens.analysis.store.store import Store
from rooflens.tests.support.waiting import END_S

pytestmark = pytest.mark.skipif(find_spec("boto3") is None, reason="needs boto3; `make team` runs these tests")
SECRET = "the-secret-of-the-tests"
ID = "0123456789abcdef"
_LIST = (
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>{more}</IsTruncated>'
    "<NextContinuationToken>{token}</NextContinuationToken>{entries}</ListBucketResult>"
)
_ENTRY = (
    '<Contents><Key>{key}</Key><Size>9</Size><ETag>"e"</ETag>'
    "<LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]
        with suppress(BrokenPipeError, ConnectionResetError):
            self.server.answer(self)  # type: ignore[attr-defined]
        self.close_connection = True

    do_HEAD = do_PUT = do_GET

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


Answer = Callable[[_Handler], None]


@contextmanager
def _server(answer: Answer) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.answer, server.requests = answer, []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(END_S)


@contextmanager
def _objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Answer) -> Iterator[S3Objects]:
    with _server(answer) as server:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(s3_module, "_ATTEMPTS", 1)
        monkeypatch.setattr(s3_module, "_READ_S", 2)
        yield S3Objects(Bucket("bucket", "team/"))


def _endless(stated: int | None) -> Answer:
    """An object whose content never ends, whatever length it states."""

    def answer(request: _Handler) -> None:
        request.send_response(200)
        if stated is not None:
            request.send_header("Content-Length", str(stated))
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while True:
            request.wfile.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")

    return answer


@pytest.mark.parametrize("stated", [None, 1000])
def test_content_without_an_end_is_given_up_at_the_size_of_the_manifest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stated: int | None
) -> None:
    with _objects(monkeypatch, tmp_path, _endless(stated)) as objects:
        target = tmp_path / "table.parquet"
        with pytest.raises(StoreProblem):
            objects.fetch("workload=x/table.parquet", target, 1000)
        assert not target.exists() or target.stat().st_size <= 1001
        with pytest.raises(StoreProblem, match="too large"):
            objects.read("manifests/x.json", 1000)


@pytest.mark.parametrize("sent", [0, 999])
def test_content_that_is_shorter_than_stated_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sent: int
) -> None:
    def answer(request: _Handler) -> None:
        request.reply(200, b"x" * sent, Content_Length="1000")

    with _objects(monkeypatch, tmp_path, answer) as objects, pytest.raises(StoreProblem):
        objects.fetch("workload=x/table.parquet", tmp_path / "table.parquet", 1000)


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_to_another_server_is_not_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int
) -> None:
    with _server(lambda request: request.reply(200, b"stolen")) as other:

        def answer(request: _Handler) -> None:
            place = f"http://127.0.0.1:{other.server_port}{request.path}"
            request.reply(status, b"", Location=place, x_amz_bucket_region="eu-west-1")

        with _objects(monkeypatch, tmp_path, answer) as objects:
            for use in (
                lambda: objects.listing("manifests/"),
                lambda: objects.read("manifests/x.json", 1000),
                lambda: objects.fetch("workload=x/table.parquet", tmp_path / "t", 6),
            ):
                with pytest.raises(StoreProblem) as refused:
                    use()
                assert SECRET not in refused.value.text
        assert not other.requests  # type: ignore[attr-defined]


def test_a_listing_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(s3_module, "_MOST_LISTINGS", 20)

    def answer(request: _Handler) -> None:
        token = f"t{len(request.server.requests)}"  # type: ignore[attr-defined]
        request.reply(200, _LIST.format(more="true", token=token, entries="").encode())

    with _objects(monkeypatch, tmp_path, answer) as objects, pytest.raises(StoreProblem, match="no end"):
        objects.listing("manifests/")


@pytest.mark.parametrize("body", [b"<x", b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
@pytest.mark.parametrize("status", [200, 403])
def test_an_answer_that_is_no_listing_is_a_problem_or_empty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: bytes, status: int
) -> None:
    with _objects(monkeypatch, tmp_path, lambda request: request.reply(status, body)) as objects:
        try:
            assert objects.listing("manifests/") == {}
        except StoreProblem as problem:
            assert SECRET not in problem.text


def test_names_and_manifests_of_a_lying_server_lead_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rooflens")
    keys = ["../../evil", "/etc/evil", "..", f"{ID}/../x", "\u202e" * 8, "A" * 300, ID]
    manifest = f'{{"id": "{ID}", "name": "n", "format": "f", "files": {{"../../evil.parquet": 9}}, ' \
               f'"sha256": {{"../../evil.parquet": "{"0" * 64}"}}}}'  # fmt: skip

    def answer(request: _Handler) -> None:
        if "list-type" in request.path:
            entries = "".join(_ENTRY.format(key=f"team/manifests/{key}.json") for key in keys)
            request.reply(200, _LIST.format(more="false", token="", entries=entries).encode())
        else:
            request.reply(200, manifest.encode())

    with _objects(monkeypatch, tmp_path, answer):
        manifests, broken = Store.locate("s3://bucket/team").scan()
    assert not manifests and len(broken) == 1 and "not tables" in broken[0]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written and all(path.is_relative_to(tmp_path / "cache") for path in written)
    assert not [path for path in written if SECRET.encode() in path.read_bytes() or "evil" in path.name]
    assert SECRET not in caplog.text + "".join(broken)


def test_tables_that_are_no_parquet_files_are_refused_despite_right_checksums(
    s3: str, four: Store, tmp_path: Path
) -> None:
    """Whoever can write to the bucket can write a manifest that fits whatever else lies there."""
    lying = Store(tmp_path / "lying")
    manifest = four.resolve("yax_before")
    folder = tmp_path / "lying" / f"workload={manifest.id}"
    shutil.copytree(four.folder(manifest), folder)
    table = folder / "passes.parquet"
    table.write_bytes(bytes(table.stat().st_size))
    shared = Store.locate(s3)
    shared.add(lying, [lying.resolve(manifest.id)])
    shutil.rmtree(shared.root)
    with pytest.raises(StoreProblem, match="passes.parquet.*is damaged"):
        shared.folder(shared.resolve(manifest.id))
    assert not list(shared.root.glob("workload=*"))
