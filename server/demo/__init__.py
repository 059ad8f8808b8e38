"""`rooflens demo`: what rooflens answers about the shipped samples, without a GPU."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.base.temporary_files import private_folder
from ...analysis.base.text import figure
from ...analysis.store.store import Store
from ...tools.base.results import Table
from ...tools.compute_metrics import MetricsResult, compute_metrics
from ...tools.compute_occupancy import compute_occupancy
from ...tools.compute_roofline import compute_roofline
from ...tools.get_run import LONGEST_WAIT_S
from ...tools.import_profile import import_profile
from ...tools.list_workloads import list_workloads
from ...tools.plot import plot
from ...tools.query_counters import query_counters
from ...tools.rendering import render
from ...tools.rendering.layout import heading
from ...tools.run_peak_benchmarks import run_peak_benchmarks
from ...tools.running import start as launch

SAMPLES = Path(__file__).parents[1] / "samples"
_MATMUL = "matmul_fp64"
_CLOVER = "clover"
_PAIR = ("yax_before", "yax_after")
_METRICS = (
    "dispatch.duration_ns", "vl1d.req", "vl1d.bw_gbs", "vl1d.hit_rate_pct", "vl1d.coalescing_pct",
    "l2.bw_gbs", "l2.hit_rate_pct", "fabric.sol_read_bw_gbs", "fabric.read_latency_cycles",
)  # fmt: skip
_SQL = """\
SELECT w.name, c.duration_ns / 1e6 AS ms, c.TCC_EA_RDREQ_sum * 64 / 1e9 AS hbm_read_gb,
       c.TCC_EA_RDREQ_sum * 64 / c.duration_ns AS gb_per_s
FROM counters c JOIN workloads w USING (workload) ORDER BY w.created"""
_CONNECT = """\
Connect an assistant (the same works for any MCP client):
  Claude Code   claude mcp add rooflens -- {command} serve --store {store}
  Codex, Gemini CLI, Cursor, VS Code: {command} connect
Then ask: "Which kernel of yax_before takes longest, and is it limited by memory?\""""


def demo(store: Store | None, facts: dict[str, Any], *, benchmark: bool = False) -> Iterator[str]:
    """Yield the lines of the demonstration: imports, kernels, metrics, one SQL answer, and how to connect.

    ``facts`` is filled for programs: the store if it is kept, the workloads by name, the pictures. ``benchmark`` also
    measures this machine.
    """
    with _store(store) as where:
        yield "1. Import two profiles of a kernel, before and after a change (MI250X, rebuilt from published figures)\n"
        ids: dict[str, str] = {}
        for name in _PAIR:
            done = import_profile(where, str(SAMPLES / name), name=name, tags=["sample"])
            ids[name] = done.workload
            yield f"   {name}: workload {done.workload}, {done.arch}, {done.kernels} kernel, {done.counters} counters"
        yield "\n2. Kernels by time\n"
        for name in _PAIR:
            yield from _show(list_workloads(where, ids[name]).table, ("kernel", "calls", "total_ns", "pct"), name)
        yield "3. Metrics before and after\n"
        yield from _side_by_side([compute_metrics(where, ids[name], metrics=list(_METRICS)) for name in _PAIR])
        yield "4. Any other question in SQL (rooflens call query_counters)\n"
        yield "   " + _SQL.replace("\n", "\n   ") + "\n"
        yield from _show(query_counters(where, _SQL).table, None, "")
        yield _LESSON
        yield from _roofline(where)
        yield from _occupancy(where)
        # The pictures remain for a day. In a shared temporary folder, others could prepare links under a known name.
        folder = store.root / "plots" if store else Path(tempfile.mkdtemp(prefix="demo-", dir=private_folder()))
        pictures = list(_pictures(where, folder))
        yield "7. Pictures (the tool plot shows them to an assistant)\n"
        yield from (f"   {picture}" for picture in pictures)
        yield ""
        if benchmark:
            yield from _ceilings(where)
        kept = store is not None
        facts |= {
            "store": where.address if kept else None,
            "workloads": {m.name: m.id for m in where.scan()[0]} if kept else {},
            "pictures": [str(picture) for picture in pictures],
        }
        yield _CONNECT.format(command="rooflens", store=where.address if kept else "DIR")
        if not kept:
            yield "\nThe samples were imported into a temporary store; `rooflens demo --store DIR` keeps them."


_LESSON = """\
   Look closely: the time fell 34 times, but the bytes read from HBM fell 64 times, and the rate fell by half. The
   number of wavefronts is the same. The published "solution" reads one row in 64. It does less work, so the speed-up
   is not like for like (a corrected version gains about 1.6 times).
"""


def _roofline(store: Store) -> Iterator[str]:
    yield "5. Roofline: FP64 matrix multiplication, naive and rocBLAS (a GCD of an MI250X, rebuilt from a lecture)\n"
    done = import_profile(store, str(SAMPLES / _MATMUL), name=_MATMUL, tags=["sample"])
    roofline = compute_roofline(
        store, done.workload, levels=["hbm"], datatype="f64", ceiling_source="theoretical", limit=6
    )
    columns = ("kernel", "intensity", "performance", "attainable", "pct_of_attainable", "bound", "limiter")
    yield from _show(
        roofline.points, columns, "intensity in FLOP/B of HBM traffic, performance and attainable in GFLOP/s"
    )


def _occupancy(store: Store) -> Iterator[str]:
    yield "6. Occupancy: a lattice QCD kernel with 44 VGPRs and 24 KiB of LDS per work-group of 256 (from a report)\n"
    done = import_profile(store, str(SAMPLES / _CLOVER), name=_CLOVER, tags=["sample"])
    occupancy = compute_occupancy(store, workload=done.workload)
    waves = f"{occupancy.waves_per_cu} of {occupancy.max_waves_per_cu} waves per CU ({occupancy.occupancy_pct:.0f} %)"
    yield f"   {waves}, limited by {', '.join(occupancy.limiters)}; the smallest changes that allow more:"
    yield from _show(occupancy.what_if, ("argument", "now", "to", "waves_per_cu", "occupancy_pct"), "")


def _pictures(store: Store, folder: Path) -> Iterator[Path]:
    """Draw two pictures and store them in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, workload, options in (
        ("roofline", _MATMUL, {"datatype": "f64", "ceiling_source": "theoretical", "kernels": 6}),
        ("occupancy", _CLOVER, {}),
    ):
        drawn = plot(store, kind, workload, **options)  # type: ignore[arg-type]
        for path in (Path(drawn.png_path), Path(drawn.svg_path)):
            kept = folder / f"{workload}-{kind}{path.suffix}"
            shutil.copyfile(path, kept)
            yield kept


def _ceilings(store: Store) -> Iterator[str]:
    """Measure what the GPU of this machine, or else the processor, can reach."""
    yield "8. What this machine can reach, measured now (run_peak_benchmarks with mode quick)\n"
    try:
        measured = run_peak_benchmarks(store, mode="quick", wait_s=LONGEST_WAIT_S)
    except Problem as problem:
        yield f"   Not measured: {problem.text}\n"
        return
    finally:
        launch.stop_all()
    if measured.ceilings is None or measured.state != "done":
        yield f"   Not measured: {measured.problem or measured.progress}\n"
        return
    yield from _show(
        measured.ceilings, ("ceiling", "value", "unit", "p05", "p95", "pct_of_theoretical", "kernel", "status"), ""
    )
    for note in measured.notes:
        yield f"   {note}"
    yield ""


@contextmanager
def _store(given: Store | None) -> Iterator[Store]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="rooflens-demo-", ignore_cleanup_errors=True) as folder:
        yield Store(folder)


def _show(table: Table, columns: tuple[str, ...] | None, title: str) -> Iterator[str]:
    chosen = [table.columns.index(c) for c in columns or table.columns]
    if title:
        yield f"   {title}"
    head = [heading(table, i) for i in chosen]
    yield from _grid([head, *([_cell(row[i]) for i in chosen] for row in table.rows)])


def _side_by_side(results: list[MetricsResult]) -> Iterator[str]:
    rows = [["metric", "unit", *_PAIR, "note"]]
    for pair in zip(*(r.table.records() for r in results), strict=True):
        notes = "; ".join(dict.fromkeys(str(row["reason"]) for row in pair if row["reason"]))
        rows.append([pair[0]["name"], pair[0]["unit"], *(_cell(row["avg"]) for row in pair), notes])
    yield from _grid(rows)


def _grid(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "   " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
    yield ""


def _cell(value: Any) -> str:
    return "-" if value is None else figure(value) if isinstance(value, float) else str(render.clean(value))
