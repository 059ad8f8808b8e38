"""The stored tables: their columns, units and meaning (``analysis/tables/*.toml``), and how each is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from ..base.database import connect, sql_literal, sql_name, sql_path
from ..base.problems import Problem
from ..catalogue.counter_names import other_names
from . import measured_ceilings as peaks
from .store import TABLES, DistantWorkloads, Manifest, Store
from .wording import problem

COLUMNS = ("grid", "workgroup_size", "vgpr", "agpr", "sgpr", "lds_bytes", "scratch_bytes", "cluster")
"""The columns of dispatches that, together with the kernel, define a launch configuration."""
_SIZE = (
    "CASE WHEN grid % nullif(workgroup_size, 0) = 0 THEN concat(grid // workgroup_size, ' x ', workgroup_size) "
    "ELSE concat(coalesce(grid::VARCHAR, '?'), ' / ', coalesce(workgroup_size::VARCHAR, '?')) END"
)
"""Work-groups and their size if known, or else work-items."""
_TOLD_WHERE_DIFFERENT = {
    "vgpr": "concat(', ', vgpr, ' VGPRs')", "agpr": "concat(', ', agpr, ' AGPRs')",
    "sgpr": "concat(', ', sgpr, ' SGPRs')", "lds_bytes": "concat(', ', lds_bytes, ' B LDS')",
    "scratch_bytes": "concat(', ', scratch_bytes, ' B scratch')", "cluster": "concat(', clusters of ', cluster)",
}  # fmt: skip
"""Included in the name only if configurations of the same size differ, so that names are stable across versions."""


def number_configurations(dispatches: str, within: str = "kernel") -> str:
    """SQL that adds to rows of dispatches the columns ``launch`` and ``configuration``, its description within the
    kernel.

    ``launch`` numbers the configurations of each kernel from 1, longest total time first. Rows of several workloads
    are numbered ``within`` "workload, kernel".
    """
    listed = ", ".join(COLUMNS)
    own = " AND ".join(f"d.{column} = n.{column}" for column in within.split(", "))
    same = " AND ".join(f"d.{column} IS NOT DISTINCT FROM n.{column}" for column in COLUMNS)
    differing = "".join(
        f", CASE WHEN min(coalesce({c}, -1)) OVER size != max(coalesce({c}, -1)) OVER size THEN {text} ELSE '' END"
        for c, text in _TOLD_WHERE_DIFFERENT.items()
    )
    same_size = f"WINDOW size AS (PARTITION BY {within}, grid, workgroup_size)"
    by_time = f"PARTITION BY {within} ORDER BY total DESC NULLS LAST, first"
    return (
        f"WITH d AS ({dispatches}), c AS (SELECT {within}, {listed}, sum(duration_ns) AS total, "
        "min(dispatch_id) AS first FROM d GROUP BY ALL), "
        f"n AS (SELECT *, CAST(row_number() OVER ({by_time}) AS INTEGER) AS launch, "
        f"concat({_SIZE}{differing}) AS configuration FROM c {same_size}) "
        f"SELECT d.*, n.launch, n.configuration FROM d JOIN n ON {own} AND {same}"
    )


def label() -> str:
    """SQL for the name of a configuration that is treated as a kernel."""
    return "concat(kernel, ' [', configuration, ']')"


_LABEL = re.compile(r"(.+)( \[[^\[\]]{1,200}\])", re.DOTALL)


def split_label(name: str) -> tuple[str, str]:
    """Split a name into the kernel and its configuration in brackets, which is empty if there is none."""
    match = _LABEL.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def kernel_of(label: str, configuration: str) -> str:
    """The kernel of a configuration with this name."""
    return label.removesuffix(f" [{configuration}]")


_PASS_TIME = "duration_ns@"


@dataclass(frozen=True)
class Column:
    """One column: its DuckDB type, its meaning and its unit if any."""

    type: str
    description: str
    unit: str | None = None
    digits: int | None = None
    """Significant digits of its values in answers; None for all."""
    decimals: int | None = None
    """Decimal places of its values in answers, instead of digits."""
    answer: str | bool = True
    """Its name in answers; False if only SQL has it, True for its own. Answers show ns as ms, and bytes as MB."""
    minor: bool = False
    """Whether it is left out first where a table does not fit into a terminal."""
    of: str | None = None
    """Where answers take it from in their rows, such as ``pair.share``; by default from what has its name."""
    scale: str | None = None
    """What the value in a row is, if answers show it as percent, ms or MB: a fraction, ns or bytes."""


_WORKLOAD = Column("VARCHAR", "Id of the workload", answer=False)


@dataclass(frozen=True)
class TableSchema:
    """One table: its name, what a row is, and its columns, of which the id of the workload is always the first."""

    name: str
    description: str
    columns: Mapping[str, Column]
    open: str | None = None
    """What the columns are that workloads add to it, if they add any."""
    tools: tuple[str, ...] = ()
    """The tools whose answers show the table as well."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", {"workload": _WORKLOAD, **self.columns})


@cache
def stored_tables() -> dict[str, TableSchema]:
    """The tables that readers fill, or that manifests contain, by name."""
    return {file.stem: _read_table(file) for file in sorted((Path(__file__).parents[1] / "tables").glob("*.toml"))}


def _read_table(file: Path) -> TableSchema:
    table = tomli.loads(file.read_text(encoding="utf-8"))
    columns = {name: Column(**facts) for name, facts in table["columns"].items()}
    return TableSchema(file.stem, table["description"], columns, table.get("open"))


def stored_columns(table: str, manifests: Iterable[Manifest] = (), more: Iterable[str] = ()) -> dict[str, Column]:
    """The columns of a stored table in order; for counters, with those that the given workloads collected.

    ``more`` lists additional columns of an open table, from ``pass_times``.
    """
    known = stored_tables()[table]
    described = dict(known.columns)
    if known.open:
        counter, time = Column("DOUBLE", known.open), known.columns["duration_ns"]
        for collected in (*(manifest.counters for manifest in manifests), more):
            for name in collected:
                described.setdefault(name, time if name.startswith(_PASS_TIME) else counter)
    return described


def further_names(manifests: Iterable[Manifest], words: Collection[str]) -> list[str]:
    """The lower-case ``words`` that are other names of counters that a workload collected."""
    names = set()
    for arch in {m.arch for m in manifests}:
        if not any(other_names(arch, word.upper()) for word in words):
            continue
        collected = {name for m in manifests if m.arch == arch for name in m.counters}
        names |= {n for c in collected for n in other_names(arch, c) if n.lower() in words and n not in collected}
    return sorted(names)


_columns_of_file: dict[Path, list[str]] = {}
"""A cache of the columns of files that no manifest lists: ``duration_ns@PASS`` and those of launches; files never
change."""


def _further_columns(files: Sequence[Path]) -> dict[Path, list[str]]:
    """The columns of some files that manifests do not list."""
    if new := [file for file in files if file not in _columns_of_file]:
        import duckdb

        known = ", ".join(map(sql_literal, ("launch", *COLUMNS)))
        query = (
            f"SELECT file_name, list(name) FILTER (starts_with(name, '{_PASS_TIME}') OR name IN ({known})) "
            f"FROM parquet_schema([{', '.join(map(sql_path, new))}]) GROUP BY 1"
        )
        with connect() as con:
            try:
                rows = con.execute(query).fetchall()
            except duckdb.Error as error:
                raise unreadable_table_problem() from error
        _columns_of_file.update({Path(file): names or [] for file, names in rows})
    return {file: _columns_of_file[file] for file in files}


def pass_times(store: Store, manifests: Iterable[Manifest]) -> list[str]:
    """The columns ``duration_ns@PASS`` of the table counters, sorted; manifests do not list them."""
    holders = [m for m in manifests if "counters.parquet" in m.files]
    distant = store.distant(holders)
    names = set(distant.columns("counters") if distant else ())
    names.update(*_further_columns(_files(store, holders, distant, "counters")).values())
    return sorted(name for name in names if name.startswith(_PASS_TIME))


def unreadable_table_problem() -> Problem:
    """The error for a file of the store that existed a moment ago and cannot be read."""
    why = "A workload was removed or damaged in the meantime"
    return problem("stored_table_unreadable", why=why)


def relation(
    store: Store,
    manifests: Sequence[Manifest],
    table: str,
    names: Sequence[str] | None = None,
    scratch_folder: Path | None = None,
) -> str | None:
    """Trusted SQL that reads ``table`` of the given workloads from their files.

    Its columns are ``names``, or all that the manifests list, with their declared types; columns that a file lacks are
    NULL. None if no workload has the table, or if it is not stored in files. ``scratch_folder`` receives data fetched
    from shared stores; without it, local copies of the workloads are used.
    """
    holders = [m for m in manifests if f"{table}.parquet" in m.files] if table in TABLES else []
    distant = store.distant(holders) if scratch_folder and names is not None else None
    files = _files(store, holders, distant, table)
    numbered = names is None or not {"launch", "configuration"}.isdisjoint(names)
    known_columns = _further_columns(files) if table == "dispatches" and numbered else {}
    # Files that were stored before launch configurations were numbered.
    older = {file: stated for file, stated in known_columns.items() if "launch" not in stated}
    newer = [file for file in files if file not in older]
    sources = [_read_files_sql(newer)] if newer else []
    if older:
        sources.append(f"FROM ({_number_rows(older)})")
    if table == "ceilings" and (measured := peaks.relation(store)):
        sources.append(f"SELECT * FROM {measured}")
    if not (sources or distant):
        return None
    known = stored_columns(table, manifests, names or ())
    names = list(known) if names is None else names
    spellings = _other_spellings(manifests, names) if table == "counters" else {}
    # The branch without rows defines the name and type of every column, whatever the files contain.
    needed = dict.fromkeys([*names, *(name for by_id in spellings.values() for name in by_id)])
    if distant:
        assert scratch_folder
        fetched_file = scratch_folder / f"{table}-brought.parquet"
        distant.extract(table, list(dict.fromkeys(["workload", *needed])), fetched_file)
        sources.append(f"SELECT * FROM read_parquet({sql_path(fetched_file)}, hive_partitioning = false)")
    typed = ", ".join(f"NULL::{known[n].type if n in known else 'DOUBLE'} AS {sql_name(n)}" for n in needed)
    if spellings and "workload" not in needed:
        typed += ", NULL::VARCHAR AS workload"
    picks = [_pick(name, spellings.get(name, {})) for name in names]
    return f"SELECT {', '.join(picks)} FROM ({' UNION ALL BY NAME '.join([f'SELECT {typed} WHERE false', *sources])})"


def _read_files_sql(files: Iterable[Path]) -> str:
    """SQL for the rows of some files, each with the id of its workload."""
    listed = ", ".join(map(sql_path, files))
    return (
        "SELECT substr(string_split(filename, '/')[-2], 10) AS workload, * EXCLUDE (filename) "
        f"FROM read_parquet([{listed}], union_by_name = true, filename = true, hive_partitioning = false)"
    )


def _number_rows(files: Mapping[Path, Iterable[str]]) -> str:
    """SQL for the rows of these files, which state these columns, with their configurations numbered."""
    stated = set[str]().union(*files.values())
    lacking = "".join(f", NULL::BIGINT AS {name}" for name in COLUMNS if name not in stated)
    return number_configurations(f"SELECT *{lacking} FROM ({_read_files_sql(files)})", within="workload, kernel")


def _other_spellings(manifests: Iterable[Manifest], names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Counter -> the other name under which some workloads collected it -> their ids."""
    spellings: dict[str, dict[str, list[str]]] = {}
    by_arch: dict[str | None, list[Manifest]] = {}
    for manifest in manifests:
        by_arch.setdefault(manifest.arch, []).append(manifest)
    for arch, of_arch in by_arch.items():
        if not (further := {name: known for name in names if (known := other_names(arch, name))}):
            continue
        for manifest in of_arch:
            collected = set(manifest.counters)
            for name, known in further.items():
                if name not in collected and (has := next((n for n in known if n in collected), None)):
                    spellings.setdefault(name, {}).setdefault(has, []).append(manifest.id)
    return spellings


def _pick(name: str, spellings: Mapping[str, list[str]]) -> str:
    """A column, or its other name for the workloads that use that one."""
    if not spellings:
        return sql_name(name)
    cases = " ".join(
        f"WHEN workload IN ({', '.join(map(sql_literal, ids))}) THEN {sql_name(other)}"
        for other, ids in spellings.items()
    )
    return f"CASE {cases} ELSE {sql_name(name)} END AS {sql_name(name)}"


def manifest_rows(table: str, manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    """The rows of ``workloads`` or ``facts``, which are stored in the manifests, by column."""
    if table == "facts":
        return [{"workload": m.id, "fact": fact, "value": value} for m in manifests for fact, value in m.facts.items()]
    rows = []
    for m in manifests:
        derived = {"workload": m.id, "created": iso(m.created_ns), "tags": ",".join(m.tags)}
        rows.append({name: derived.get(name, getattr(m, name, None)) for name in stored_tables()["workloads"].columns})
    return rows


def _files(store: Store, holders: Iterable[Manifest], distant: DistantWorkloads | None, table: str) -> list[Path]:
    """The files of one table of the workloads that have it, except of distant ones."""
    left_out = {m.id for m in distant.manifests} if distant else set()
    near = [m for m in holders if m.id not in left_out]
    store.prepare(near)
    return [path for m in near if (path := store.file(m, table))]


def iso(created_ns: int) -> str:
    """A time since 1970 in ns as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(created_ns / 1e9, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
