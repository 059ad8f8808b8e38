"""Every table that SQL knows, declared once in a file of its own.

``<table>.toml`` has the columns of a table that readers fill (``events``); ``<table>.py`` has a ``TABLE`` whose columns
stand beside the function that computes its rows (``gaps``). A file that is added here is a table in SQL and in its
reference; text, structured content, CSV and DataFrame are derived from the same columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

from ..store.manifest import Manifest
from ..store.schema import Column, TableSchema, stored_columns, stored_tables
from .declaration import DerivedTable

_NOT_TABLES = ("__init__", "declaration", "derived")
_FIRST = ("workloads", "dispatches", "counters")
"""The tables that a reader of the schema needs first; the others follow by name."""
_RULES = """\
-- One SELECT (or WITH, FROM, DESCRIBE, SUMMARIZE, EXPLAIN) a query, DuckDB's dialect, read-only.
-- NULL means not collected, 0 is a measured zero. Ratios: sum(a) / nullif(sum(b), 0), over the same launches.
-- Names with @ need double quotes: "SQ_INSTS_LDS@SQ_INST_LEVEL_LDS". Text needs single quotes.
-- Per launch configuration: SELECT kernel, configuration, sum(SQ_WAVES) FROM counters JOIN dispatches
-- USING (workload, dispatch_id, kernel) GROUP BY ALL
-- DESCRIBE counters lists the collected counters; a counter with several names can be used by each
-- (TCC_EA_RDREQ_sum is TCC_EA0_RDREQ_sum)."""


@cache
def derived_tables() -> dict[str, DerivedTable]:
    """The tables whose rows are computed, by name."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in _NOT_TABLES)
    return {name: import_module(f".{name}", __package__).TABLE for name in names}


@cache
def schema() -> dict[str, TableSchema]:
    """Every table by name."""
    tables = stored_tables() | derived_tables()
    return {name: tables[name] for name in dict.fromkeys((*_FIRST, *sorted(tables)))}


def columns(table: str, manifests: Iterable[Manifest] = (), more: Iterable[str] = ()) -> dict[str, Column]:
    """The columns of a table in order; for counters, with those of ``store.schema.stored_columns``."""
    if table in stored_tables():
        return stored_columns(table, manifests, more)
    return dict(derived_tables()[table].columns)


def render() -> str:
    """All tables as compact, commented CREATE TABLE text: the resource rooflens://schema."""
    blocks = [_RULES]
    for name, table in schema().items():
        lines = [f"CREATE TABLE {name} (  -- {table.description}"]
        for column, facts in table.columns.items():
            unit = f" [{facts.unit}]" if facts.unit else ""
            comment = f"  -- {facts.description}{unit}" if column != "workload" or name == "workloads" else ""
            lines.append(f"  {column} {facts.type},{comment}")
        if table.open:
            lines.append(f"  <COUNTER> DOUBLE, ...  -- {table.open}")
        blocks.append("\n".join([*lines, ");"]))
    return "\n\n".join(blocks) + "\n"
