"""Fixtures of all tests, and how the product runs in tests.

A test process differs from a user's in five ways, all of them here and all of them to save time on a busy machine:

- Runs queue for devices with those of the same test process alone (``own_locks``).
- Children are copies of one process that has imported everything, not fresh interpreters (``copies``; see nursery.py).
- DuckDB uses one thread, because every core has a test process already (``usual_threads``).
- Queries of SQL have as long as tests wait, unless a test states their time (``clock_of_sql``).
- What ``recordings.stored`` reads is read once in all workers (``first_imports``).

``as_users_have_it`` takes the second, third and fourth away again. Tests in tests/system that are about the start of
children use it, and so does tests/system/test_as_users_have_it.py, which goes through the product once without them.
Programs that tests start are as users have them, but for servers of tests/system/server, which warm up less (cold.py);
in tests/external/team, DuckDB does not check the signatures of extensions, 0.4 s for each connection.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rooflens.analysis.base import database
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT, SHARED
from rooflens.tests.support import nursery, once, recordings, waiting
from rooflens.tools import query_counters
from rooflens.tools.isolation import child, fork_server
from rooflens.tools.running import start


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs queue for devices with those of the same test process alone, not with all of this user on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        (runtime := tmp_path_factory.mktemp("runtime")).chmod(0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        yield


@pytest.fixture(scope="session", autouse=True)
def copies(own_locks: None) -> Iterator[None]:
    """Children are copies of one process that has imported everything, instead of fresh interpreters."""
    with pytest.MonkeyPatch.context() as patch, closing(nursery.Nursery()) as ours:
        for module in (child, fork_server):
            patch.setattr(module, "start_fresh", ours.start)
        patch.setattr(start, "start_fresh", ours.start_supervisor)
        yield


@pytest.fixture(scope="session", autouse=True)
def usual_threads() -> Iterator[int]:
    """DuckDB's usual number of threads; in tests it is one."""
    with waiting.one_thread_in_duckdb() as usual:
        yield usual


@pytest.fixture(scope="session", autouse=True)
def clock_of_sql() -> Iterator[object]:
    """The usual sandbox of SQL; in tests its default clock is longer, also in copies of the nursery."""
    usual = query_counters.sandbox
    with waiting.unhurried_sql():
        yield usual


@pytest.fixture(scope="session", autouse=True)
def first_imports(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What ``recordings.stored`` reads is read once in all workers."""
    recordings.keep_in(once.common(tmp_path_factory) / "recordings")


@pytest.fixture
def as_users_have_it(monkeypatch: pytest.MonkeyPatch, usual_threads: int, clock_of_sql: object) -> None:
    """Children start as those of a user's program do, DuckDB has its threads, and SQL its clock."""
    for module in (child, fork_server):
        monkeypatch.setattr(module, "start_fresh", nursery.start_fresh)
    monkeypatch.setattr(start, "start_fresh", nursery.start_fresh_supervisor)
    monkeypatch.setattr(database, "_THREADS", usual_threads)
    monkeypatch.setattr(query_counters, "sandbox", clock_of_sql)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What tests with ``await`` run on."""
    return "asyncio"


@pytest.fixture
def short_place() -> Iterator[Path]:
    """A folder for sockets, whose paths must be short wherever temporary files are kept."""
    with tempfile.TemporaryDirectory(prefix="rooflens-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real profiles and expected values that are not part of the project."""
    if not (SHARED / "workloads").is_dir():
        pytest.skip("needs the recorded profiles in ../shared, which the project does not ship")
    return SHARED


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the two shipped samples; read it, do not write to it."""
    store = Store(tmp_path_factory.mktemp("samples"))
    for name in ("yax_before", "yax_after"):
        recordings.stored(store, ROOT / "server" / "samples" / name, name)
    return store


@pytest.fixture(scope="session")
def labelled(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the report of kernels on an H200 that have metrics per instruction; read it, do not write to it."""
    pytest.importorskip("ncu_report", reason="needs the package ncu-report")
    store = Store(tmp_path_factory.mktemp("labelled"))
    recordings.stored(store, shared / "source_lines" / "labelled.ncu-rep.gz", "labelled")
    return store
