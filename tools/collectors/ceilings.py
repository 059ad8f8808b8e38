"""roofline.csv of rocprof-compute: the measured peaks of every device of the machine."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.store import write_table
from .files import is_inside, small_table

if TYPE_CHECKING:
    import duckdb

_DEVICES = 64


def write_ceilings(
    con: duckdb.DuckDBPyConnection, folder: Path, gpu: str, measured_at: str | None, out: Path, notes: list[str]
) -> None:
    """roofline.csv of ``folder``, one row per device, into empirical ceilings (GB/s, GFLOP/s, GOP/s)."""
    file = folder / "roofline.csv"
    if not file.is_file():
        return
    if not is_inside(file, folder):
        notes.append("roofline.csv is a link out of the workload folder and was left out.")
        return
    rows = [row for record in small_table(file)[:_DEVICES] for row in ceilings(record, gpu)]
    if not rows:
        notes.append("roofline.csv holds no usable ceiling and was left out.")
        return
    con.execute(
        "CREATE OR REPLACE TABLE ceiling_rows (device_uuid VARCHAR, device_id INT, gpu VARCHAR, ceiling VARCHAR, "
        "unit VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE, kind VARCHAR, n INT, median DOUBLE, p05 DOUBLE, "
        "p95 DOUBLE, clock_mhz DOUBLE, method VARCHAR, measured_at VARCHAR)"
    )
    con.executemany(
        "INSERT INTO ceiling_rows VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, 'empirical', NULL, NULL, NULL, NULL, NULL, "
        "'roofline.csv of rocprof-compute', ?)",
        [[*row, measured_at] for row in rows],
    )
    write_table(con, "FROM ceiling_rows", out / "ceilings.parquet")


def ceilings(record: dict[str, str], gpu: str) -> list[list[object]]:
    """The ceilings of one device row; the known misspellings of headers (hbmBwHigh, MFMAFI8OpsLow) are accepted."""
    values = {_header(key): value for key, text in record.items() if (value := _number(text)) is not None}
    device = int(min(values.get("device", 0), _DEVICES))
    result: list[list[object]] = []
    for name, value in values.items():
        if not name.endswith(("bw", "flops", "ops")) or value <= 0:
            continue
        unit = "GB/s" if name.endswith("bw") else "GFLOP/s" if name.endswith("flops") else "GOP/s"
        low, high = values.get(name + "low"), values.get(name + "high")
        result.append([device, gpu, ceiling_name(name), unit, value, low, high])
    return result


def ceiling_name(header: str) -> str:
    """``hbmbw`` -> hbm.bw, ``l1bw`` -> vl1d.bw, ``fp32flops`` -> valu.f32, ``mfmabf16flops`` -> matrix.bf16."""
    stem = re.sub(r"(bw|flops|ops)$", "", header)
    levels = {"hbm": "hbm", "l2": "l2", "l1": "vl1d", "lds": "lds"}
    if header.endswith("bw"):
        return f"{levels.get(stem, stem)}.bw"
    kind = "matrix" if stem.startswith("mfma") else "valu"
    return f"{kind}.{stem.removeprefix('mfma').replace('fp', 'f')}"


def _header(text: str) -> str:
    return text.strip().lower().replace("mfmafi8", "mfmai8")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
