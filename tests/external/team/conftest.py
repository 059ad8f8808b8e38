"""A real PostgreSQL and an S3 server on loopback, each in a temporary folder and ended with the tests.

What they need is in the extra ``team``, moto and PostgreSQL's programs; `make team` installs all but the last into
.venv/team, whose Python runs these tests. In another one those skip that need what is not there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest

from rooflens.analysis.store.remote import catalogue
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.waiting import END_S, until
from rooflens.tools.import_profile import import_profile

SAMPLES = ROOT / "server" / "samples"
_NOBODY = 65534


@pytest.fixture(scope="session", autouse=True)
def cheap_connections() -> Iterator[None]:
    """Connections of this process load extensions, 90 MB, without a check of their signatures, and read the
    descriptions of S3 once. Processes that tests start, and the product, check signatures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(catalogue._OFFLINE, "allow_unsigned_extensions", "true")
        if find_spec("botocore"):
            from botocore import loaders

            patch.setattr(loaders, "create_loader", cache(loaders.create_loader))
        yield


def _started(process: subprocess.Popen[bytes], log: Path, said: str) -> None:
    """Wait until a server has written that it is there, or has ended."""
    with suppress(AssertionError):
        until(lambda: said in log.read_text(errors="replace") or process.poll() is not None)
    told = log.read_text(errors="replace")
    assert said in told and process.poll() is None, told[-2000:]


def _ended(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server (moto) on loopback."""
    for package in ("boto3", "moto", "flask"):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}; `make team` installs it into .venv/team and runs these tests there")
    log = tmp_path_factory.mktemp("s3") / "log"
    serve = (
        "import sys; from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app\n"
        "from werkzeug.serving import make_server\n"
        "s = make_server('127.0.0.1', 0, DomainDispatcherApplication(create_backend_app), threaded=True)\n"
        "print('port', s.port, 'ready', flush=True); s.serve_forever()"
    )
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", serve], stdout=out, stderr=subprocess.STDOUT)
    try:
        _started(process, log, "ready")
        yield f"http://127.0.0.1:{log.read_text().split('port ')[1].split()[0]}"
    finally:
        _ended(process, signal.SIGTERM)


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The address of a store in a bucket of its own; this process and what it starts has the credentials."""
    import boto3

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-of-the-tests")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = f"b{uuid4().hex[:12]}"
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=name)
    return f"s3://{name}/team"


def postgres_program(name: str) -> Path:
    """A program of the newest PostgreSQL on this machine; an empty path if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]))
    return found[-1] if found else Path(shutil.which(name) or "")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """How libpq reaches a PostgreSQL of these tests: a socket in a temporary folder, no network."""
    initdb = postgres_program("initdb")
    if not initdb.name:
        pytest.skip("needs PostgreSQL's programs (apt install postgresql)")
    import duckdb

    for name in ("ducklake", "postgres_scanner", "httpfs"):
        if find_spec(f"duckdb_extension_{name}") is None:
            pytest.skip(
                f"needs DuckDB's extension {name} (DuckDB is {duckdb.__version__}); `make team` runs these tests"
            )
    home = Path(tempfile.mkdtemp(prefix="rooflens-pg-", dir="/tmp"))  # a socket's path must be short
    other = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        if other:
            os.chown(home, _NOBODY, _NOBODY)
        made = [initdb, "-D", home / "data", "-A", "trust", "-U", "rooflens", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(made, check=True, capture_output=True, cwd="/", **other)
        settings = ["-c", "listen_addresses=", "-k", home, "-c", "fsync=off", "-c", "max_connections=60"]
        log = home / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [initdb.with_name("postgres"), "-D", home / "data", *settings], stdout=out, stderr=out, cwd="/", **other
            )
        try:
            _started(process, log, "ready to accept connections")
            yield f"host={home} user=rooflens"
        finally:
            _ended(process, signal.SIGINT)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _new_database(postgres: str, template: str = "template1") -> str:
    """A new database, as a copy of another one: its connection string."""
    name = f"d{uuid4().hex[:12]}"
    _execute(f"dbname=postgres {postgres}", f"CREATE DATABASE {name} TEMPLATE {template}")
    return f"dbname={name} {postgres}"


def _execute(database: str, statement: str) -> None:
    """Let PostgreSQL execute a statement."""
    subprocess.run([postgres_program("psql"), "-qX", "-d", database, "-c", statement], check=True, capture_output=True)


@pytest.fixture
def database(postgres: str) -> str:
    """A new, empty database: the connection string of it."""
    return _new_database(postgres)


@pytest.fixture(scope="session")
def empty_lake(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database with an empty catalogue, which tests copy because creating one takes seconds."""
    database = _new_database(postgres)
    store = Store.locate(f"ducklake:postgres:{database}")
    store.catalogue.create(str(tmp_path_factory.mktemp("data")))  # type: ignore[attr-defined]
    return database.partition("dbname=")[2].split()[0]


@pytest.fixture
def lake(postgres: str, empty_lake: str, s3: str) -> Store:
    """A store behind a catalogue in PostgreSQL with its files in S3, set up and empty."""
    database = _new_database(postgres, empty_lake)
    _execute(database, f"UPDATE ducklake_metadata SET value = '{s3}/' WHERE key = 'data_path'")
    return Store.locate(f"ducklake:postgres:{database}")


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A folder with the four small samples; read it, do not write to it."""
    store = Store(tmp_path_factory.mktemp("four"))
    for name in ("yax_before", "yax_after", "clover", "matmul_fp64"):
        import_profile(store, str(SAMPLES / name), name=name, tags=[name[:3]])
    return store
