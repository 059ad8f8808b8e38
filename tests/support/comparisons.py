"""Workloads made of a few launches; what a launch leaves out was not collected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from rooflens.analysis.base.database import connect, sql_literal, sql_name
from rooflens.analysis.launches import device_clocks
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.analysis.workload import Workload

MI250X = {
    "cu_per_gpu": 110.0, "max_sclk": 1700.0, "max_mclk": 1600.0, "num_hbm_channels": 32.0, "total_l2_chan": 32.0,
    "num_xcd": 1.0,
}  # fmt: skip
LAUNCH: dict[str, int | None] = {
    "grid": 65536, "workgroup_size": 256, "lds_bytes": 0, "vgpr": None, "agpr": None, "sgpr": None,
    "scratch_bytes": None,
}  # fmt: skip
CEILING = {
    "device_uuid": "VARCHAR", "device_id": "INT", "gpu": "VARCHAR", "ceiling": "VARCHAR", "unit": "VARCHAR",
    "value": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "kind": "VARCHAR", "n": "INT", "method": "VARCHAR",
    "measured_at": "VARCHAR",
}  # fmt: skip
Row = Mapping[str, Any]
_opened: dict[str, Workload] = {}


def create_table(
    con: duckdb.DuckDBPyConnection, folder: Path, name: str, columns: Mapping[str, str], rows: Iterable[Row]
) -> None:
    """A temporary table of rows, which are read from a file: much faster than inserting them one by one."""
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    types = ", ".join(f"{sql_literal(column)}: '{kind}'" for column, kind in columns.items())
    source = f"read_json({sql_literal(str(file))}, format = 'newline_delimited', columns = {{{types}}})"
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM {source}")
    file.unlink()


def workload(
    store: Store,
    rows: Sequence[Row],
    *,
    arch: str | None = "gfx90a",
    facts: Mapping[str, float] = MI250X,
    launch: Mapping[str, int | None] = LAUNCH,
    samples: Sequence[Row] = (),
    events: Sequence[tuple[str, str, int, int]] = (),
    ceilings: Sequence[Row] = (),
    **stated: Any,
) -> Manifest:
    """Publish a workload of one launch a row: kernel, duration_ns, launch columns, and counters by their names.

    ``launch`` are the launch columns where a row states no others, ``samples`` rows of the table clocks, ``ceilings``
    rows of that table; ``events`` have a kind, a name, a start and an end in ns.
    """
    fixed = {"kernel", "duration_ns", *LAUNCH}
    counters = list(dict.fromkeys(name for row in rows for name in row if name not in fixed))
    types = {"dispatch_id": "BIGINT", "kernel": "VARCHAR", "duration_ns": "DOUBLE", **dict.fromkeys(launch, "BIGINT")}
    values = [{"dispatch_id": i, **launch, **row} for i, row in enumerate(rows)]
    with store.draft() as folder, connect() as con:
        create_table(con, folder, "t", types | dict.fromkeys(counters, "DOUBLE"), values)
        kept = ", ".join(["dispatch_id", "kernel", "duration_ns", *map(sql_name, counters)])
        if counters:
            write_table(con, f"SELECT {kept} FROM t", folder / "counters.parquet")
        names = ", ".join(["dispatch_id", "kernel", "duration_ns", *launch])
        write_table(con, f"SELECT {names} FROM t", folder / "dispatches.parquet")
        device_clocks.save(con, folder, samples)
        if ceilings:
            create_table(con, folder, "p", CEILING, ceilings)
            write_table(con, "FROM p", folder / "ceilings.parquet")
        if events:
            columns = {"kind": "VARCHAR", "name": "VARCHAR", "start_ns": "BIGINT", "end_ns": "BIGINT"}
            create_table(con, folder, "e", columns, [dict(zip(columns, event, strict=True)) for event in events])
            direction = "CASE kind WHEN 'copy' THEN 'd2h' END AS direction, 0 AS device_id, 1 AS pid"
            write_table(
                con, f"SELECT row_number() OVER () AS event_id, *, {direction} FROM e", folder / "events.parquet"
            )
        known = {"name": "w", "format": "test", "vendor": "amd", "arch": arch, "facts": dict(facts)} | stated
        kernels = len({row["kernel"] for row in rows})
        made = {**known, "counters": counters, "dispatches": len(rows), "kernels": kernels, "events": len(events)}
        return store.publish(folder, Manifest.model_validate(made))


def opened(store: Store, rows: Sequence[Row], **stated: Any) -> Workload:
    """A workload that nobody changes, opened: the same one for all who ask for the same rows."""
    key = repr((store.root, rows, stated))
    if key not in _opened:
        _opened[key] = Workload(store, workload(store, rows, **stated))
    return _opened[key]


def launches(kernel: str, times: Sequence[float], **counters: float) -> list[dict[str, Any]]:
    """One launch for each time in ns, all with the same counters."""
    return [{"kernel": kernel, "duration_ns": t, **counters} for t in times]


def traffic(gigabytes: float) -> dict[str, float]:
    """CDNA counters of reads between L2 and memory that add up to so many GB."""
    none = dict.fromkeys(("TCC_EA_RDREQ_32B_sum", "TCC_EA_WRREQ_sum", "TCC_EA_WRREQ_64B_sum"), 0.0)
    return {"TCC_EA_RDREQ_sum": gigabytes * 1e9 / 64} | none


def flop(count: float) -> dict[str, float]:
    """CDNA counters of so many floating-point operations, all FP64 additions; no other type was used."""
    kinds = [f"SQ_INSTS_VALU_{o}_F{b}" for o in ("ADD", "MUL", "FMA", "TRANS") for b in (16, 32, 64)]
    matrix = [f"SQ_INSTS_VALU_MFMA_MOPS_{t}" for t in ("F16", "BF16", "F32", "F64")]
    return dict.fromkeys([*kinds, *matrix], 0.0) | {"SQ_INSTS_VALU_ADD_F64": count / 64}
