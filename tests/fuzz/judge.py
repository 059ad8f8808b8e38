"""What holds of a reader, whatever it is given: a profile or a problem in words; soon, in little memory, cleanly."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from rooflens.analysis.base.database import sql_name, sql_path
from rooflens.analysis.base.problems import Problem
from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.fuzz.profiles import Spoilt
from rooflens.tests.support.nursery import used_by_children
from rooflens.tests.support.waiting import slowness
from rooflens.tools.code_objects import kernels
from rooflens.tools.import_profile import import_profile

MOST_S, MOST_BYTES = 10.0, 1 << 30
_TEXT, _MOST_INPUT = 50_000, 2_000_000


@dataclass
class Tally:
    """What happened to the examples of one reader."""

    examples: int = 0
    imports: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    most_bytes: int = 0


def judge(given: Spoilt, reader: str, tally: Tally) -> None:
    """Read one example; AssertionError, or the reader's own exception, where a promise is broken."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz_"))
    try:
        for name, content in given.files.items():
            file = folder / "profile" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        source = folder / "profile" / given.target
        assert sum(map(len, given.files.values())) < _MOST_INPUT
        store = Store(folder / "store")
        before, began = _reset_memory(), _worked_s()
        try:
            if reader == "code object":
                assert kernels.read(source)
            else:
                _check(store, given, import_profile(store, str(source)).dispatches)
            tally.imports += 1
        except Problem as problem:
            assert problem.what and len(problem.text) < 3000, problem.text[:3000]
            assert "Traceback" not in problem.text
            assert store.scan() == ([], []), "a refused profile left a workload"
            tally.problems[type(problem).__name__] += 1
        taken, grown = _worked_s() - began, _most_memory() - before
        drafts = folder / "store" / "tmp"
        assert not drafts.is_dir() or not list(drafts.iterdir()), "a draft was left behind"
        tally.examples += 1
        tally.slowest_s, tally.most_bytes = max(tally.slowest_s, taken), max(tally.most_bytes, grown)
        assert taken < MOST_S or taken < MOST_S * slowness(), f"took {taken:.1f} s"
        assert grown < MOST_BYTES, f"took {grown >> 20} MiB"
    finally:
        shutil.rmtree(folder)


def _check(store: Store, given: Spoilt, dispatches: int | None) -> None:
    """What is in the store is whole and can be what the files say."""
    (manifest,), broken = store.scan()
    assert not broken and manifest.dispatch_count == dispatches
    packed = any(content.startswith(b"\x1f\x8b") for content in given.files.values())
    assert packed or (dispatches or 0) <= sum(map(len, given.files.values())), "more launches than bytes"
    assert sum(len(w.text) for w in manifest.warnings) < _TEXT
    if manifest.events:
        ids = "count(DISTINCT event_id), min(event_id), max(event_id)"
        assert _read(store, manifest, "events", ids) == (manifest.events, 1, manifest.events)
        odd = r"end_ns >= start_ns AND start_ns IS NOT NULL AND NOT regexp_matches(name, '[\p{Cc}\p{Cf}]')"
        assert _read(store, manifest, "events", f"count(*) FILTER (NOT coalesce({odd}, false))") == (0,)
    if not dispatches:
        return
    rows = {table: _read(store, manifest, table, "count(*)") for table in ("dispatches", "counters")}
    assert rows == {"dispatches": (dispatches,), "counters": (dispatches,)}
    (unnamed,) = _read(store, manifest, "dispatches", "count(*) FILTER (kernel IS NULL OR kernel = '')")
    (hidden,) = _read(store, manifest, "dispatches", r"count(*) FILTER (regexp_matches(kernel, '[\p{Cc}\p{Cf}]'))")
    (wrong,) = _read(store, manifest, "dispatches", "count(*) FILTER (NOT (isfinite(duration_ns) AND duration_ns > 0))")
    assert (unnamed, hidden, wrong) == (0, 0, 0)
    if manifest.counters:
        names = [sql_name(c) for c in manifest.counters]
        (strange,) = _read(store, manifest, "counters", "+".join(f"count(*) FILTER (NOT isfinite({n}))" for n in names))
        assert strange == 0
        (least,) = _read(store, manifest, "counters", f"min(least({', '.join(names)}, 0))")
        assert least >= 0 or any(w.code == "negative" for w in manifest.warnings) or manifest.vendor == "nvidia"


def _read(store: Store, manifest: Manifest, table: str, pick: str) -> tuple[float, ...]:
    file = store.file(manifest, table)
    assert file
    found = duckdb.sql(f"SELECT {pick} FROM read_parquet({sql_path(file)}, hive_partitioning = false)").fetchall()
    return tuple(found[0])


def _worked_s() -> float:
    """Seconds of CPU time of this process and its children, so that the machine's other load does not count; that
    nothing waits for ever is for the clock of whoever runs this."""
    return time.process_time() + used_by_children().cpu_s


def _reset_memory() -> int:
    """Forget the most memory that this process ever took; returns what it takes now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _most_memory()


def _most_memory() -> int:
    """Bytes; the largest child counts as well."""
    (line,) = [text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM:")]
    return (int(line.split()[1]) << 10) + used_by_children().most_bytes
