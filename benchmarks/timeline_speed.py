"""How long compute_timeline takes over millions of events, and how much memory: `python benchmarks/timeline_speed.py`.

The timeline is made: half of the events are launches and copies asked for by one thread, half is what two devices do of
them on three streams, with a gap behind nearly every one, so that every gap has to be explained.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import duckdb

from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.tools.compute_timeline import compute_timeline
from rooflens.tools.isolation.limits import keep_freed_memory

_HOST = """SELECT 'api' AS kind, CASE WHEN i % 10 = 0 THEN 'hipMemcpyAsync' ELSE 'hipLaunchKernel' END AS name,
  NULL::INTEGER AS device_id, NULL::BIGINT AS stream, 1::BIGINT AS thread, t AS start_ns, t + 3000 AS end_ns,
  NULL::BIGINT AS bytes, NULL::VARCHAR AS direction, NULL::BOOLEAN AS pinned, i AS correlation FROM made"""
_DEVICE = """SELECT CASE WHEN i % 10 = 0 THEN 'copy' ELSE 'kernel' END, 'kernel ' || (i % 50), (i % 2)::INTEGER, i % 3,
  NULL, t + 5000, t + 7000 + (hash(i + 7) % 9000)::BIGINT, CASE WHEN i % 10 = 0 THEN 4096 END,
  CASE WHEN i % 10 = 0 THEN 'h2d' END, CASE WHEN i % 10 = 0 THEN i % 20 = 0 END, i FROM made"""


def main() -> int:
    """Make a timeline, ask for it three times, and say what each time took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    events = parser.parse_args().events
    keep_freed_memory()  # as the process of a client's call
    with tempfile.TemporaryDirectory() as root:
        store = Store(root)
        with store.draft() as folder, duckdb.connect() as con:
            made = f"SELECT i, 8000 * i + (hash(i) % 3000)::BIGINT AS t FROM range({events // 2}) r(i)"
            rows = f"WITH made AS ({made}) FROM ({_HOST} UNION ALL {_DEVICE}) ORDER BY start_ns"
            more = "1::BIGINT AS pid, NULL::INTEGER AS rank, NULL::BIGINT AS range_id, NULL::DOUBLE AS value"
            select = f"SELECT row_number() OVER () AS event_id, *, {more}, NULL::VARCHAR AS category FROM ({rows})"
            write_table(con, select, Path(folder) / "events.parquet")
            store.publish(folder, Manifest(name="made", format="made", events=events))
        # An answer to the same arguments is stored, so that the second turn asks for one row more.
        for turn, rows in (("first", 5), ("second", 6), ("repeated", 6)):
            began, cpu = time.perf_counter(), time.process_time()
            found = compute_timeline(store, "made", top_n=rows)
            took, used = time.perf_counter() - began, time.process_time() - cpu
            load = os.getloadavg()[0]
            print(f"{turn} call, {events:,} events: {took:.1f} s ({used:.1f} s of CPU time), load {load:.1f}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"verdict {found.verdict.height}; most memory with the making of the timeline {memory:,.0f} MiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
