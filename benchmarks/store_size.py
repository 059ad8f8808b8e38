"""How long reading takes in stores of many workloads: `python benchmarks/store_size.py 1 100 1000`.

Every store holds copies of a shipped sample under ids of their own; its files are linked, not copied.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rooflens.analysis.store.store import Manifest, Store, new_id
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters

SAMPLE = Path(__file__).parents[1] / "server" / "samples" / "yax_before"


def filled(root: Path, n: int) -> tuple[Store, Manifest]:
    """A store of ``n`` copies of the sample, and one of them."""
    store = Store(root)
    import_profile(store, str(SAMPLE), name="w")
    first = store.resolve("latest")
    source = root / f"workload={first.id}"
    for i in range(1, n):
        copy = first.model_copy(update={"id": new_id(first.created_ns + i * 1_000_000), "name": f"w{i}"})
        folder = root / f"workload={copy.id}"
        folder.mkdir()
        for name in copy.files:
            os.link(source / name, folder / name)
        (folder / "manifest.json").write_text(json.dumps(copy.model_dump()))
    return store, first


def cases(store: Store, one: Manifest) -> dict[str, Callable[[], object]]:
    """What is timed, in this order: the first call of a kind computes what later ones find."""
    pinned = f"SELECT metric, value FROM metrics WHERE workload = '{one.id}'"
    over_all = "SELECT count(*), avg(value) FROM metrics"
    findings = f"SELECT claim FROM findings WHERE workload = '{one.id}'"
    return {
        "list, first": lambda: list_workloads(store),
        "list": lambda: list_workloads(store),
        "dispatches of one": lambda: query_counters(store, "SELECT * FROM dispatches", workload=one.id),
        "metrics of one, first": lambda: query_counters(store, pinned, limit=1000),
        "metrics of one": lambda: query_counters(store, pinned, limit=1000),
        "metrics, workload=": lambda: query_counters(store, pinned, workload=one.id, limit=1000),
        "findings of one": lambda: query_counters(store, findings),
        "dispatches of all": lambda: query_counters(store, "SELECT count(*) FROM dispatches"),
        "metrics of all, first": lambda: query_counters(store, over_all),
        "metrics of all": lambda: query_counters(store, over_all),
    }


def timed(work: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """One line a store size."""
    for n in map(int, sys.argv[1:] or ["1", "10", "100"]):
        with tempfile.TemporaryDirectory() as folder:
            store, one = filled(Path(folder), n)
            times = [f"{name} {timed(work):.3f} s" for name, work in cases(store, one).items()]
            print(f"{n} workloads: {', '.join(times)}", flush=True)


if __name__ == "__main__":
    main()
