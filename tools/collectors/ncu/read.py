"""Reader of Nsight Compute: report files, and the CSV of its raw and details pages."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.problems import BadInput
from ....analysis.store import Manifest, sql_name, sql_path
from ..merge import Merged, write_tables
from ..names import plain_text
from ..passes import as_replays
from ..session import WORK
from ..staged import Staged
from .launches import DEVICE
from .sources import as_passes, files_of, read_tables, version

if TYPE_CHECKING:
    import duckdb

FORMAT = "ncu"
TITLE = "report or CSV of Nsight Compute (FILE.ncu-rep, ncu --csv --page raw or details)"
_TEXTS = ("CC", f"{DEVICE}display_name", "Process Name", "Host Name")
_SHOWN = 4


def detect(path: Path) -> bool:
    """Whether ``path`` is such a file, or a folder with some in it or in its sub-folders."""
    return bool(files_of(path))


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, Merged]:
    """Read the launches at ``path`` into tables under ``out``; counters are named as ncu names them, in base units.

    Files with different metrics are passes, files with the same metrics processes of one pass. Raises BadInput
    naming the file at fault, MissingTool for a report without the package that reads it.
    """
    files = files_of(path) or ([path] if path.is_file() else [])
    if not files:
        raise BadInput(
            f"{path.name} holds no report and no page of ncu", "no file with ID and Process ID in its header"
        )
    notes: list[str] = []
    tables = read_tables(con, files, out / WORK, notes)
    notes += [note for table in tables for note in table.notes]
    passes = as_replays(as_passes(con, tables, out / WORK))
    main, warnings = passes[0].staged, []
    have = {row[0] for row in con.execute(f"DESCRIBE FROM {_rows(main)}").fetchall()}
    texts = {name: _values(con, main, name) if name in have else [] for name in _TEXTS}
    facts = _facts(con, main, have)
    for what, values in (("GPUs", texts[_TEXTS[1]]), ("compute capabilities", texts["CC"])):
        if len(values) > 1:
            warnings.append(f"Launches of several {what} ({', '.join(values[:_SHOWN])}): facts are those of the first.")
    merged = write_tables(con, passes, out, instances_per_xcd=1)
    merged.warnings[:0] = warnings
    merged.notes += notes
    manifest = Manifest(
        name=path.name.split(".")[0] if path.is_file() else path.name,
        format=FORMAT,
        vendor="nvidia",
        arch=f"sm_{texts['CC'][0].replace('.', '')}" if texts["CC"] else None,
        device=next(iter(texts[_TEXTS[1]]), None),
        command=", ".join(texts["Process Name"][:_SHOWN]) or None,
        host=texts["Host Name"][0] if len(texts["Host Name"]) == 1 else None,
        tool="ncu",
        tool_version=version(files),
        facts=facts,
    )
    return manifest, merged


def _rows(staged: Staged) -> str:
    return f"read_parquet({sql_path(staged.parquet)}, hive_partitioning = false, file_row_number = true)"


def _values(con: duckdb.DuckDBPyConnection, staged: Staged, column: str) -> list[str]:
    """The different texts of a column, in file order."""
    name = sql_name(column)
    found = con.execute(
        f"SELECT {name} FROM {_rows(staged)} WHERE {name} IS NOT NULL GROUP BY 1 ORDER BY min(file_row_number) LIMIT 50"
    ).fetchall()
    return [plain_text(text) for (text,) in found]


def _facts(con: duckdb.DuckDBPyConnection, staged: Staged, have: set[str]) -> dict[str, float]:
    """Facts of the device of the first launch."""
    stated = {fact: rule for fact, rule in _rules().items() if rule["metric"] in have}
    if not stated:
        return {}
    picks = ", ".join(f"first({sql_name(rule['metric'])} ORDER BY file_row_number)" for rule in stated.values())
    row = con.execute(f"SELECT {picks} FROM {_rows(staged)}").fetchone() or ()
    return {
        fact: value * rule.get("factor", 1)
        for (fact, rule), value in zip(stated.items(), row, strict=True)
        if value is not None
    }


@cache
def _rules() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("facts.toml").read_text())
