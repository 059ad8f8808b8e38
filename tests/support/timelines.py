"""Timelines for tests: published workloads of made events, the recorded Chrome traces, and times by brute force."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from rooflens.analysis.base.database import connect
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.analysis.tables import schema
from rooflens.tests.support.recordings import stored

EVENT = [c for c in schema()["events"].columns if c != "workload"]
RANGE = [c for c in schema()["ranges"].columns if c != "workload"]
_SYNC = re.compile(r"Synchronize|StreamWaitEvent|hipMemcpy$|cudaMemcpy$")
_ALLOC = re.compile(r"Malloc|Free|MemAlloc|MemPool")


@dataclass
class Made:
    """Events and ranges as rows by column; times in ns."""

    events: list[dict[str, Any]] = field(default_factory=list)
    ranges: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    host_stacks: list[dict[str, Any]] = field(default_factory=list)
    host_samples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, name: str | None, start: int, end: int, **columns: Any) -> None:
        """One event."""
        self.events.append({"kind": kind, "name": name, "start_ns": start, "end_ns": end, "pid": 1} | columns)

    def host(self, name: str, start: int, end: int, thread: int = 1, **columns: Any) -> int:
        """A host call of the kind that its name tells; returns its correlation."""
        self.correlation += 1
        kind = "sync" if _SYNC.search(name) else "alloc" if _ALLOC.search(name) else "api"
        self.add(kind, name, start, end, **{"thread": thread, "correlation": self.correlation} | columns)
        return self.correlation

    def launch(self, name: str, call: tuple[int, int], run: tuple[int, int], **columns: Any) -> None:
        """A kernel and the call that launched it."""
        host = {k: v for k, v in columns.items() if k in ("pid", "rank", "thread")}
        device = {k: v for k, v in columns.items() if k != "thread"}
        number = self.host("hipLaunchKernel", *call, **host)
        self.add("kernel", name, *run, **{"device_id": 0, "stream": 7, "correlation": number} | device)

    def copy(self, direction: str, call: tuple[int, int], run: tuple[int, int], **columns: Any) -> None:
        """A copy and the call that asked for it."""
        number = self.host("hipMemcpyAsync", *call)
        self.add("copy", f"copy {direction}", *run, **{"device_id": 0, "stream": 8, "correlation": number,
                 "direction": direction, "bytes": 1 << 20} | columns)  # fmt: skip

    def stack(self, *frames: str) -> int:
        """The number of a stack of frames such as ``run train.py:4``; files of ``lib`` are those of a library."""
        number = len({row["stack"] for row in self.host_stacks}) + 1
        for depth, text in enumerate(frames):
            function, _, place = text.partition(" ")
            file, _, line = place.partition(":")
            module = "torch" if file.startswith("lib/torch/") else "lib" if file.startswith("lib") else None
            self.host_stacks.append({"stack": number, "depth": depth, "function": function, "file": f"/app/{file}",
                                     "line": int(line), "module": module, "own": module is None})  # fmt: skip
        return number

    def sample(self, stack: int, start: int, end: int, thread: int = 1, pid: int = 1) -> None:
        """A thread had a stack from a time until another."""
        self.host_samples.append({"start_ns": start, "end_ns": end, "pid": pid, "thread": thread, "stack": stack,
                                  "source": "py-spy"})  # fmt: skip

    def range(self, name: str, start: int, end: int, depth: int | None = 0, **columns: Any) -> None:
        """A range of the program."""
        self.ranges.append(
            {"name": name, "path": name, "start_ns": start, "end_ns": end, "depth": depth, "thread": 1, "pid": 1,
             "source": "user"} | columns
        )  # fmt: skip


def publish(store: Store, made: Made, name: str = "made", **manifest: Any) -> Manifest:
    """A workload of a timeline alone."""
    with store.draft() as folder, connect() as con:
        host = [(name, getattr(made, name), [*schema()[name].columns][1:]) for name in ("host_stacks", "host_samples")]
        for table, rows, columns in (("events", made.events, EVENT), ("ranges", made.ranges, RANGE), *host):
            if not rows:
                continue
            path, numbered = folder / f"{table}.jsonl", f"{table[:-1]}_id"
            with path.open("w") as out:
                for number, row in enumerate(rows):
                    out.write(json.dumps({numbered: number} | row) + "\n")
            types = ", ".join(f"'{c}': '{schema()[table].columns[c].type}'" for c in columns)
            select = f"FROM read_json('{path}', format = 'newline_delimited', columns = {{{types}}})"
            write_table(con, select, folder / f"{table}.parquet")
            path.unlink()
        stated = {"format": "made", "vendor": "amd", "events": len(made.events)} | manifest
        return store.publish(folder, Manifest(name=name, **stated))


def chrome(path: Path) -> Made:
    """A Chrome trace of torch.profiler, as its reader reads it."""
    made = Made()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        manifest = stored(store, path)
        for table, rows in (("events", made.events), ("ranges", made.ranges)):
            found = duckdb.sql(f"FROM read_parquet('{store.file(manifest, table)}', hive_partitioning = false)")
            rows += [
                {name: value for name, value in zip(found.columns, row, strict=True) if name != f"{table[:-1]}_id"}
                for row in found.fetchall()
            ]
    return made


def union(intervals: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """By brute force: how much of [start, end] the intervals cover."""
    total, reached = 0, start
    for a, b in sorted(intervals):
        a, b = max(a, reached), min(b, end)
        if b > a:
            total += b - a
            reached = b
    return total
