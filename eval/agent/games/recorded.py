"""The recordings that the questions are about: their paths, and SQL tables built without code of rooflens.

The tables serve to compute correct answers. Each recording is one table, named as the workload, with a row per launch
and the columns of the profiler, plus ``kernel`` (the name without parameters) and ``ns`` (the duration). AMD recordings
also have ``<name>_device`` with the profiler's data about the machine.
"""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any

import duckdb

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "server" / "samples"
OWN = Path(__file__).resolve().parents[1] / "profiles"


def recordings() -> dict[str, Path]:
    """The path to import for each workload by name; each has one table of launches."""
    found = {}
    for folder in sorted(path for base in (SAMPLES, OWN) for path in base.iterdir() if path.is_dir()):
        packed = sorted(folder.glob("*.csv.gz"))
        if (folder / "pmc_perf.csv").exists():
            found[folder.name] = folder
        elif packed and packed[0].name != "lines.csv.gz":
            found[folder.name] = packed[0]
    return found


def tables() -> duckdb.DuckDBPyConnection:
    """Open an in-memory database with every recording as a table; the caller must close it."""
    database = duckdb.connect()
    for name, path in recordings().items():
        if path.is_dir():
            rows = _rows((path / "pmc_perf.csv").read_text(encoding="utf-8").splitlines())
            for row in rows:
                row |= {"kernel": _plain(row["Kernel_Name"]), "ns": row["End_Timestamp"] - row["Start_Timestamp"]}
            _table(database, f"{name}_device", _rows((path / "sysinfo.csv").read_text(encoding="utf-8").splitlines()))
        else:
            with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
                rows = _rows(text.read().splitlines())[1:]  # the first row contains units
            for row in rows:
                row |= {"kernel": _plain(row["Kernel Name"]), "ns": row["gpu__time_duration.sum"]}
        _table(database, name, rows)
    return database


def _rows(lines: list[str]) -> list[dict[str, Any]]:
    return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(lines)]


def _value(text: str) -> float | str | None:
    """Convert to a number, with or without thousands separators; else keep the text; None if empty."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text or None


def _plain(name: Any) -> str:
    return re.sub(r"\(.*$", "", str(name)).removeprefix("void ")


def _table(database: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    kinds = {c: "DOUBLE" if any(isinstance(row[c], float) for row in rows) else "VARCHAR" for c in columns}
    stated = ", ".join(f'"{column}" {kinds[column]}' for column in columns)
    database.execute(f'CREATE TABLE "{name}" ({stated})')
    values = [[None if kinds[c] == "DOUBLE" and isinstance(row[c], str) else row[c] for c in columns] for row in rows]
    database.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', values)
