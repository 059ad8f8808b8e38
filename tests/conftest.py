"""Fixtures that several test folders use."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rooflens.analysis.store.store import Store
from rooflens.tests import nursery, once, proved, recordings, selection, thorough, waiting
from rooflens.tools.isolation import child, fork_server
from rooflens.tools.running import start

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
# Processes that tests start, hundreds of them, find modules and tests compiled, whatever this machine usually does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The same examples in every run, and nothing that depends on how fast they are made or tried; `make fuzz` draws anew.
settings.register_profile(
    "the same everywhere", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("the same everywhere")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are found without looking for garbage among them, then or later: a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """With ``make prove``, record what passed; with ``make select``, what every test executes."""
    if proved.PROVE in os.environ:
        config.pluginmanager.register(proved.Recorder())
    if selection.SELECT in os.environ:
        config.pluginmanager.register(selection.Observer(Path(os.environ[selection.SELECT])))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what was proved before and depends on nothing that changed, and deselect what only repeats."""
    proved.skip_unchanged(items)
    thorough.deselect_repetitions(config, items)


def pytest_unconfigure() -> None:
    """At the end everything is let go, of which libraries make sure."""
    gc.unfreeze()


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
        if selection.SELECT in os.environ:
            patch.setattr(start, "inherited_environment", selection.passing_on(start.inherited_environment))
        yield


@pytest.fixture(scope="session", autouse=True)
def usual_threads() -> Iterator[int]:
    """DuckDB's usual number of threads; in tests it is one, because every core has a test process already."""
    with waiting.one_thread_in_duckdb() as usual:
        yield usual


@pytest.fixture(scope="session", autouse=True)
def clock_of_sql() -> Iterator[None]:
    """Queries of tests that do not test the clock have time; so have those in copies of the nursery."""
    with waiting.unhurried_sql():
        yield


@pytest.fixture(scope="session", autouse=True)
def first_imports(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What ``recordings.stored`` reads is read once in all workers."""
    recordings.keep_in(once.common(tmp_path_factory) / "recordings")


@pytest.fixture
def fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children start as those of a user's program do."""
    for module in (child, fork_server):
        monkeypatch.setattr(module, "start_fresh", nursery.start_fresh)
    monkeypatch.setattr(start, "start_fresh", nursery.start_fresh_supervisor)


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
