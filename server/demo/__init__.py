"""`rooflens demo`: what rooflens answers about the shipped samples, without a GPU; demo.toml has its steps."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tomli

from ...analysis.base.problems import Problem
from ...analysis.base.temporary_files import private_folder
from ...analysis.base.text import count_text, figure, inert
from ...analysis.store.store import Store
from ...tools.base.results import Result, Table
from ...tools.rendering.layout import heading
from ..mcp.tool_calls import ask
from ..terminal.tables import fit_table

SAMPLES = Path(__file__).parents[1] / "samples"
_WIDTH = 120


def demo(store: Store | None, facts: dict[str, Any], *, benchmark: bool = False) -> Iterator[str]:
    """Yield the lines of the demonstration: imports, kernels, metrics, one SQL answer, and how to connect.

    ``facts`` is filled for programs: the store if it is kept, the workloads by name, the pictures. ``benchmark`` also
    measures this machine.
    """
    script = tomli.loads(Path(__file__).with_name("demo.toml").read_text(encoding="utf-8"))
    with ExitStack() as stack:
        where = store
        if where is None:
            made = tempfile.TemporaryDirectory(prefix="rooflens-demo-", ignore_cleanup_errors=True)
            where = Store(stack.enter_context(made))
        # The pictures remain for a day. In a shared temporary folder, others could prepare links under a known name.
        folder = store.root / "plots" if store else Path(tempfile.mkdtemp(prefix="demo-", dir=private_folder()))
        facts["pictures"] = []
        for step in script["steps"]:
            yield from _step(where, folder, facts["pictures"], **step)
        if benchmark:
            yield f"{script['benchmark']}\n"
            yield from _ceilings(where, script["ceilings"])
        facts["store"] = where.address if store else None
        facts["workloads"] = {m.name: m.id for m in where.scan()[0]} if store else {}
        yield script["connect"].format(store=where.address if store else "DIR")
        if not store:
            yield f"\n{script['temporary']}"


def _step(
    store: Store, folder: Path, copies: list[str], title: str, query: str = "", remark: str = "", **parts: Any
) -> Iterator[str]:
    yield f"{title}\n"
    for name in parts.get("samples", ()):
        done: Any = ask(store, "import_profile", {"path": str(SAMPLES / name), "name": name, "tags": ["sample"]})
        kernels = count_text(done.kernels, "kernel")
        yield f"   {name}: workload {done.workload}, {done.arch}, {kernels}, {done.counters} counters"
    if query:
        yield from (f"   {line}" for line in [*query.splitlines(), ""])
        yield from _show(ask(store, "query_counters", {"sql": query}))
    for call in parts.get("answers", ()):
        yield from _show(ask(store, call["tool"], call["arguments"]), **call)
    for options in parts.get("pictures", ()):
        drawn: Any = ask(store, "plot", options)
        folder.mkdir(parents=True, exist_ok=True)
        for path in (Path(drawn.png_path), Path(drawn.svg_path)):
            copy = folder / f"{options['workload']}-{options['kind']}{path.suffix}"
            copies.append(str(shutil.copyfile(path, copy)))
            yield f"   {copy}"
    yield from (f"   {line}" for line in remark.splitlines())
    yield from [""] if remark or not (query or parts.get("answers")) else []


def _ceilings(store: Store, columns: list[str]) -> Iterator[str]:
    """Measure what the GPU of this machine, or else the processor, can reach."""
    try:
        measured: Any = ask(store, "run_peak_benchmarks", {"mode": "quick"})
    except Problem as problem:
        yield f"   Not measured: {problem.text}\n"
        return
    if measured.ceilings is None or measured.state != "done":
        yield f"   Not measured: {measured.problem or measured.progress}\n"
        return
    yield from _show(measured, "ceilings", columns)
    yield from (f"   {note}" for note in measured.notes)
    yield ""


def _show(
    result: Result, table: str = "table", columns: list[str] | None = None, line: str = "", **_: Any
) -> Iterator[str]:
    if line:
        yield f"   {line.format(result)}"
    rows: Table = getattr(result, table)
    chosen = [rows.columns.index(name) for name in columns or rows.columns]
    cells = [[_cell(row[i]) for i in chosen] for row in rows.rows]
    yield from (f"   {row}" for row in fit_table([heading(rows, i) for i in chosen], cells, _WIDTH))
    yield ""


def _cell(value: Any) -> str:
    return "-" if value is None else figure(value) if isinstance(value, float) else inert(str(value))
