"""The tool query_counters: SQL over the stored profiles, run in a sandbox that cannot read files, write or run long."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self

from ..analysis.base.problems import BadArgument, LimitExceeded
from ..analysis.base.text import count_text, first_few
from ..analysis.store import measured_ceilings as peaks
from ..analysis.store.doubts import DURATION
from ..analysis.store.manifest import manifest_doubts
from ..analysis.store.store import Manifest, Store
from .answers.sentences import optional_sentence, sentence
from .base.parameters import Reference
from .base.results import Result, Table
from .isolation.child import Child, ChildLost
from .sql import errors as sql_errors
from .sql.errors import FailedQuery
from .sql.references import References, references, result_units, rows_needed
from .sql.sandbox import sandbox
from .sql.sources import ReadableTables, plan, shorten_description, skip_damaged

SQL_BYTES = 64 * 1024
CELL_BYTES = 2_000
TOTAL_BYTES = 200_000
MOST_COLUMNS = 40
"""Maximum columns of a wide answer for a model."""
_NAMED = 12
_TOLD = 3
_VALUE = 200
"""Maximum characters of a single value in the first sentence."""
"""Maximum doubts, and workloads of each, that an answer reports."""
_COUNT_S = 0.5
# fmt: off
_TABLE_FUNCTIONS = frozenset((
    "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "test_all_types",
    "duckdb_columns", "duckdb_tables", "duckdb_functions", "duckdb_types", "duckdb_keywords", "pragma_table_info",
))
# fmt: on
"""All others read files, run SQL or addresses given as values, change settings, or expose the machine."""
_SCALARS_REFUSED = frozenset(("to_aggregate_state", "write_log"))
_EXPLAIN_CELL_BYTES = 20_000


class QueryResult(Result):
    """The rows of a query."""

    NAMES_AS_STORED = True
    table: Table

    def brief(self, arguments: Mapping[str, Any]) -> Self:
        """Limit a wide answer (``*``) to the columns that the SQL names and the first ones that contain a value."""
        if brief_text := shorten_description(self.table, cut="limit" not in arguments):
            return self.model_copy(update={"table": brief_text[0], "notes": [*self.notes, *brief_text[1]]})
        names, rows = self.table.columns, self.table.rows
        if len(names) <= MOST_COLUMNS:
            return self
        asked = set(re.findall(r"\w+(?:@\w+)*", str(arguments.get("sql", "")).lower()))
        named = {i for i, name in enumerate(names) if name.lower() in asked}
        empty = {i for i in range(len(names)) if rows and all(row[i] is None for row in rows)} - named
        # A counter of a single pass comes after all other columns.
        filled = sorted({*range(len(names))} - named - empty, key=lambda i: ("@" in names[i], i))
        room = max(0, MOST_COLUMNS - len(named))
        kept = sorted(named.union(filled[:room]))
        if len(kept) == len(names):
            return self
        more = [names[i] for i in filled[room:]]
        shown = [*more[:_NAMED], *(["..."] if len(more) > _NAMED else [])]
        left_out = optional_sentence("queried.named", count=len(more), names=shown)
        omitted = len(names) - len(kept)
        note = sentence("queried.omitted", omitted=omitted, every=len(names), empty=len(empty), more=left_out)
        lines: list[list[Any]] = [names, self.table.units, *rows]
        columns, units, *cells = ([line[i] for i in kept] for line in lines)
        table = self.table.model_copy(update={"columns": columns, "units": units, "rows": cells})
        return self.model_copy(update={"table": table, "notes": [note, *self.notes]})


def query_counters(
    store: Store,
    sql: str,
    workload: Reference | None = None,
    limit: int = 100,
    timeout_s: float = 10,
) -> QueryResult:
    """Run one SELECT (DuckDB) over stored profiles: tables dispatches, counters, metrics, ... as described by DESCRIBE
    and the resource rooflens://schema."""
    _check(sql)
    manifests, notes = _select_workloads(store, workload)
    try:
        result, damaged = skip_damaged(
            store, manifests, lambda whole: _exchange_with_worker(store, whole, sql, limit, timeout_s)
        )
    except TimeoutError:
        raise sql_errors.query_problem("out_of_time", timeout_s=timeout_s) from None
    except RecursionError:
        raise sql_errors.query_problem("too_deep") from None
    except ChildLost as lost:
        if lost.was_killed:
            raise sql_errors.out_of_memory() from None
        raise
    result.notes[:0] = [*notes, *damaged[:3]]
    return result


def _exchange_with_worker(
    store: Store, manifests: list[Manifest], sql: str, limit: int, timeout_s: float
) -> QueryResult:
    """Exchange two messages with the worker: the parse tree for the data, then the data for the rows."""
    offer = ReadableTables(store, manifests)
    with sandbox(sql, timeout_s) as box:
        parsed = box.child.receive()
        _raise(parsed, FailedQuery(sql, offer.columns))
        tree, explain = parsed["tree"], parsed["explain"]
        named = references(tree, offer.columns)
        _refuse(named)
        with box.pause():  # this may download files of a shared store
            offer.widen(named)
        with box.pause():
            first = None if explain else rows_needed(tree, named, limit)
            planned = plan(offer, named, box.folder, first)
        cell = _EXPLAIN_CELL_BYTES if explain else CELL_BYTES
        box.child.send({**asdict(planned), "limit": limit, "cell_bytes": cell, "total_bytes": TOTAL_BYTES})
        answer = box.rows()
        _raise(answer, FailedQuery(sql, offer.columns, named.tables))
        total = len(answer["rows"]) if answer["complete"] else _total(box.child)
    names, rows = answer["columns"], answer["rows"]
    units: list[str | None] = [None] * len(names) if explain else result_units(tree, names, offer.columns)
    table = Table(columns=names, units=units, rows=rows, total_rows=total, truncated=not answer["complete"])
    notes = [f"The table {name} has no rows here." for name in planned.empty]
    notes += [*_names_for_ids(manifests, named), *_doubts(manifests, named), *_remarks(answer, table)]
    return QueryResult(answer=_answer(table), table=table, notes=notes)


def _answer(table: Table) -> str | None:
    """State a single value, or that there are no rows; None for a table, which speaks for itself."""
    if not table.rows:
        return sentence("query.none")
    if len(table.rows) == len(table.columns) == 1 and isinstance(value := table.rows[0][0], int | float | str):
        unit = optional_sentence("query.unit", unit=table.units[0])
        return sentence("query.one", table=table, value=str(value)[:_VALUE], unit=unit)
    return None


def _names_for_ids(manifests: list[Manifest], named: References) -> list[str]:
    """Return notes on WHERE workload = '...' with a workload's name, because the column contains ids."""
    texts = {text for those in named.workloads.values() for text in those or ()}.difference(m.id for m in manifests)
    meant = {m.name: m for m in manifests if m.name in texts}
    return [sentence("queried.ids", of=one) for one in [*meant.values()][:_TOLD]]


def _doubts(manifests: list[Manifest], named: References) -> Iterator[str]:
    """Return the import checks' doubts about the launch columns that a query names."""
    if named.tables.isdisjoint(("counters", "counter_instances", "dispatches")):
        return
    doubted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for manifest in manifests:
        for doubt in manifest_doubts(manifest):
            columns = () if doubt.across else (*doubt.counters, *([DURATION] if doubt.times else []))
            for column in columns:
                if column.lower() in named.words:
                    doubted[column, doubt.text].append(manifest.name)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (column, text), names in doubted.items():
        alike[text, tuple(names)].append(column)
    for (text, workloads), touched in list(alike.items())[:_TOLD]:
        yield f"{first_few(touched, _NAMED)} of {first_few(workloads, _TOLD)}: {text}."


def _check(sql: str) -> None:
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise BadArgument("The SQL is not valid Unicode text") from None
    if size > SQL_BYTES:
        raise LimitExceeded(
            f"The SQL has {count_text(size, 'byte')}", f"{SQL_BYTES} are allowed", "Shorten it, or split it"
        )
    if "\0" in sql:
        raise BadArgument("The SQL contains a NUL character")
    if not sql.strip():
        raise sql_errors.query_problem("empty")


def _select_workloads(store: Store, workload: str | None) -> tuple[list[Manifest], list[str]]:
    if workload is not None:
        return [store.resolve(workload)], []
    manifests, broken = store.scan()
    notes = [f"Skipped: {sentence}" for sentence in broken[:3]]
    empty = not manifests and not peaks.files(store)
    return manifests, [*notes, "The store has no workloads; every table is empty."] if empty else notes


def _refuse(named: References) -> None:
    if named.writes:
        raise sql_errors.query_problem("statement")
    for name in sorted(named.table_functions - _TABLE_FUNCTIONS | named.functions & _SCALARS_REFUSED):
        raise sql_errors.query_problem("not_available", function=name, available=sorted(_TABLE_FUNCTIONS))


def _raise(answer: dict[str, Any], asked: FailedQuery) -> None:
    if "error" in answer:
        raise sql_errors.problem(answer["error"], asked)


def _total(child: Child) -> int | None:
    """Return the number of rows without the limit, if they can be counted quickly."""
    total: int | None = None
    with suppress(TimeoutError, ChildLost):
        total = child.receive(_COUNT_S).get("total_rows")
    return total


def _remarks(answer: dict[str, Any], table: Table) -> Iterator[str]:
    """Describe what was changed or omitted in the answer."""
    shown = len(table.rows)
    if answer["cut_bytes"]:
        yield sentence("queried.cut", rows=shown, size=TOTAL_BYTES // 1000)
    elif table.truncated:
        yield sentence("queried.first", rows=shown, of=optional_sentence("queried.of", total=table.total_rows))
    for name in ("not_finite", "big_integers", "cut_cells"):
        if answer[name]:
            yield sentence(f"queried.{name}", count=answer[name])
