"""Workloads made of a few launches for the tests of comparisons; what a launch leaves out was not collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rooflens.analysis.base.database import sql_name
from rooflens.analysis.launches import device_clocks
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.tests.support.rooflines import MI250X

LAUNCH: dict[str, int | None] = {
    "grid": 65536, "workgroup_size": 256, "lds_bytes": 0, "vgpr": None, "agpr": None, "sgpr": None,
    "scratch_bytes": None,
}  # fmt: skip
Row = Mapping[str, Any]


def workload(
    store: Store,
    rows: Sequence[Row],
    *,
    arch: str | None = "gfx90a",
    facts: Mapping[str, float] = MI250X,
    samples: Sequence[Row] = (),
    events: Sequence[tuple[str, str, int, int]] = (),
    **stated: Any,
) -> Manifest:
    """Publish a workload of one launch a row: kernel, duration_ns, launch columns, and counters by their names.

    ``samples`` are rows of the table clocks; ``events`` have a kind, a name, a start and an end in ns.
    """
    fixed = {"kernel", "duration_ns", *LAUNCH}
    counters = list(dict.fromkeys(name for row in rows for name in row if name not in fixed))
    con = duckdb.connect()
    wide = "".join(f", {sql_name(c)} DOUBLE" for c in counters)
    launch = ", ".join(f"{name} BIGINT" for name in LAUNCH)
    con.execute(f"CREATE TABLE t (dispatch_id BIGINT, kernel VARCHAR, duration_ns DOUBLE, {launch}{wide})")
    values = [
        [i, row["kernel"], row["duration_ns"], *(row.get(n, d) for n, d in LAUNCH.items()), *map(row.get, counters)]
        for i, row in enumerate(rows)
    ]
    con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(values[0]))})", values)
    with store.draft() as folder:
        kept = ", ".join(["dispatch_id", "kernel", "duration_ns", *map(sql_name, counters)])
        if counters:
            write_table(con, f"SELECT {kept} FROM t", folder / "counters.parquet")
        names = ", ".join(["dispatch_id", "kernel", "duration_ns", *LAUNCH])
        write_table(con, f"SELECT {names} FROM t", folder / "dispatches.parquet")
        device_clocks.save(con, folder, samples)
        if events:
            con.execute("CREATE TABLE e (kind VARCHAR, name VARCHAR, start_ns BIGINT, end_ns BIGINT)")
            con.executemany("INSERT INTO e VALUES (?, ?, ?, ?)", events)
            direction = "CASE kind WHEN 'copy' THEN 'd2h' END AS direction, 0 AS device_id, 1 AS pid"
            write_table(
                con, f"SELECT row_number() OVER () AS event_id, *, {direction} FROM e", folder / "events.parquet"
            )
        known = {"name": "w", "format": "test", "vendor": "amd", "arch": arch, "facts": dict(facts)} | stated
        kernels = len({row["kernel"] for row in rows})
        made = {**known, "counters": counters, "dispatches": len(rows), "kernels": kernels, "events": len(events)}
        return store.publish(folder, Manifest.model_validate(made))


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
