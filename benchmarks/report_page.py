"""How long pages of `rooflens report` take to collect, and to load in a headless Chromium: many kernels, many events.

python benchmarks/report_page.py; needs chromium and the test tools.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rooflens.analysis.store.store import Store
from rooflens.server.mcp.toolbox import functions
from rooflens.server.page.build import page
from rooflens.tests.support import rooflines, timelines
from rooflens.tests.support.browser import Browser
from rooflens.tools.report.collect import collect

KERNELS, LAUNCHES, LOADS = 500, 33_334, 7
READY_MS = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"


def main() -> None:
    """Print a line for each page: seconds to collect and to write, size, median and slowest load."""
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        store = Store(Path(folder) / "store")
        _many_kernels(store)
        _many_events(store)
        for name in ("kernels", "events"):
            began = time.perf_counter()
            report = collect(store, functions(), [name])
            collected = time.perf_counter()
            path = Path(folder) / f"{name}.html"
            path.write_text(page(report), encoding="utf-8")
            written = time.perf_counter()
            loads = []
            for _ in range(LOADS):
                browser.open(path)
                loads.append(browser.evaluate(READY_MS))
            print(
                f"{name}: collected in {collected - began:.2f} s, written in {written - collected:.2f} s, "
                f"{path.stat().st_size / 1e6:.2f} MB, loaded in {statistics.median(loads):.0f} ms "
                f"(slowest {max(loads):.0f} ms)"
            )


def _many_kernels(store: Store) -> None:
    counters = rooflines.counters("gfx90a")
    rows: list[dict[str, Any]] = [
        {
            "kernel": f"void kernel_{n}<float, Policy<{n}>>(float const*, int)",
            "duration_ns": 1_000 + 10.0 * n,
            **{c: float((n * 7 + k * 13) % 997 + 1) * 100 for k, c in enumerate(counters)},
        }
        for n in range(KERNELS)
    ]
    rooflines.publish(store, rows, name="kernels")


def _many_events(store: Store) -> None:
    made, at = timelines.Made(), 0
    for n in range(LAUNCHES):
        length = 500 + n * 7919 % 3_000
        made.launch(f"busy_{n % KERNELS}", (at, at + 900), (at + 1_000, at + 1_000 + length))
        made.range(f"step{n % 9}", at, at + 1_200, depth=n % 3)
        at += 1_500 + length
    timelines.publish(store, made, name="events")


if __name__ == "__main__":
    main()
