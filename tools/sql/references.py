"""Determine what an SQL query names: tables, columns, workloads, functions, and the units of its result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...analysis.catalogue import files
from ...analysis.store.schema import Column

Node = dict[str, Any]
_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")


@dataclass
class References:
    """Everything that a query names, in lower case, and the tables that it needs completely."""

    tables: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    """Tables of which every column is needed: SELECT *, COLUMNS(...), NATURAL JOIN, PIVOT, a row as a value."""
    words: set[str] = field(default_factory=set)
    """Every name and text in the query; columns that are not among them cannot be used by it."""
    functions: set[str] = field(default_factory=set)
    table_functions: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    """Tables that are neither ours nor defined by the query itself, such as those of information_schema."""
    writes: bool = False
    """Whether it contains a nested data-modifying statement."""
    workloads: dict[str, set[str] | None] = field(default_factory=dict)
    """Table -> the workloads that WHERE workload = '...' restricts its rows to; None: all workloads."""

    @property
    def may_list_columns(self) -> bool:
        """Whether the answer may depend on which columns the table counters has."""
        if self.foreign or self.table_functions or not self.tables:
            return True
        return not self.words.isdisjoint({"counters", "show_ref"}) or any("duration_ns@" in w for w in self.words)


def references(root: Node, known: Collection[str]) -> References:
    """Return everything the query ``root`` refers to; ``known`` are the lower-case names of our tables."""
    refs = References()
    for node in _walk(root):
        kind = str(node.get("type"))
        refs.words.update(_words(node))
        refs.writes |= kind.endswith("_NODE") and kind not in _QUERIES
        if "function_name" in node:
            refs.functions.add(str(node["function_name"]).lower())
        if kind == "TABLE_FUNCTION":
            refs.table_functions.add(str((node.get("function") or {}).get("function_name")).lower())
    aliases: dict[str, set[str]] = {}
    rows: set[str] = set()
    queries: list[tuple[Node, frozenset[str]]] = [(root, frozenset())]
    while queries:
        query, cte_names = queries.pop()
        if query.get("cte_name"):
            cte_names |= {str(query["cte_name"]).lower()}
        for name, body in ctes(query):
            queries.append((body, cte_names))
            cte_names |= {name}
        inside, nested = _parts(query)
        queries += [(inner, cte_names) for inner in nested]
        own = [node for node in inside if node.get("type") == "BASE_TABLE"]
        names = {_table(node) for node in own} - cte_names
        refs.foreign |= names.difference(known)
        refs.tables |= names.intersection(known)
        only = _workloads(query, inside, own)
        for node in own:
            name, alias = _table(node), _alias(node)
            ids = only.get(alias)
            before = refs.workloads.get(name, set())
            refs.workloads[name] = None if ids is None or before is None else before | ids
            aliases.setdefault(alias, set()).add(name)
            if node.get("column_name_alias"):
                refs.whole.add(name)
        for node in (query, *inside):
            if node.get("column_names"):
                rows.add(str(node["column_names"][-1]).lower())
            if node.get("type") == "STAR" and node.get("relation_name"):
                rows.add(str(node["relation_name"]).lower())
            elif node.get("type") in ("STAR", "POSITIONAL_REFERENCE", "PIVOT") or node.get("ref_type") == "NATURAL":
                refs.whole |= names
    for name in rows:
        refs.whole |= aliases.get(name, set())
    refs.whole &= refs.tables
    return refs


def _table(node: Node) -> str:
    return str(node["table_name"]).lower()


def _alias(node: Node) -> str:
    return str(node.get("alias") or node["table_name"]).lower()


_ALL_ROWS_COUNT = {"ASOF", "POSITIONAL", "DEPENDENT"}
_JOINS = {"INNER", "LEFT", "RIGHT", "OUTER", "FULL"}


def _workloads(query: Node, inside: list[Node], own: list[Node]) -> dict[str, set[str]]:
    """Map each table alias to the workloads to which the WHERE clause of one SELECT restricts its rows.

    ``own`` are its tables among the nodes ``inside`` it.

    Only equality with text constants counts, and only if rows of other workloads are neither visible nor affect which
    rows are.
    """
    joins = [node for node in inside if node.get("type") == "JOIN"]
    if any("sample" in node or node.get("column_name_alias") for node in (query, *own)) or any(
        node.get("ref_type") in _ALL_ROWS_COUNT or node.get("join_type") not in _JOINS for node in joins
    ):
        return {}
    names = list(map(_alias, own))
    only: dict[str, set[str]] = {}
    pending = [query.get("where_clause") or {}]
    while pending:
        condition = pending.pop()
        if condition.get("type") == "CONJUNCTION_AND":
            pending += condition["children"]
            continue
        sides = condition.get("children") or [condition.get("left") or {}, condition.get("right") or {}]
        columns = [side["column_names"] for side in sides if side.get("type") == "COLUMN_REF"]
        texts = {text for kind, text in map(_constant, sides) if kind in ("STRING", "VARCHAR")}
        equality = condition.get("type") in ("COMPARE_EQUAL", "COMPARE_IN")
        if not (
            equality and len(columns) == 1 and columns[0][-1].lower() == "workload" and len(texts) + 1 == len(sides)
        ):
            continue
        for name in names if len(columns[0]) == 1 else [str(columns[0][-2]).lower()]:
            only[name] = only[name] & texts if name in only else texts
    return only


def _constant(node: Node) -> tuple[str | None, str]:
    """Return the type and the text of a constant, in the form of either DuckDB version; no type for any other node."""
    if node.get("type") != "VALUE_CONSTANT":
        return None, ""
    if literal := node.get("literal"):
        return literal.get("kind"), str(literal.get("text", ""))
    value = node.get("value") or {}
    return (value.get("type", {}).get("id"), str(value["value"])) if "value" in value else (None, "")


def rows_needed(root: Node, refs: References, limit: int) -> tuple[str, int, bool] | None:
    """Return (table, rows, whether the query has no own limit) if the first rows of one table suffice, else None.

    They suffice for ``SELECT columns FROM table [LIMIT n] [OFFSET m]`` only; the caller shows ``limit`` rows.
    """
    if len(refs.tables) != 1 or refs.foreign:
        return None
    table = root.get("from_table", {})
    plain = {"type", "modifiers", "select_list", "from_table", "aggregate_handling", "cte_map"}
    if table.get("type") != "BASE_TABLE" or "sample" in table or any(root[key] for key in root.keys() - plain):
        return None
    if root.get("cte_map") or root.get("aggregate_handling") != "STANDARD_HANDLING":
        return None
    for item in root["select_list"]:
        if item.get("type") not in ("STAR", "COLUMN_REF") or item.get("replace_list") or item.get("expr"):
            return None
    name, modifiers = _table(table), root.get("modifiers", [])
    if not modifiers:
        return name, limit + 1, True
    if len(modifiers) > 1 or modifiers[0].get("type") != "LIMIT_MODIFIER":
        return None
    own, offset = _integer(modifiers[0].get("limit")), _integer(modifiers[0].get("offset"))
    if own is None or (modifiers[0].get("offset") and offset is None):
        return None
    return name, own + (offset or 0), False


def _parts(query: Node) -> tuple[list[Node], list[Node]]:
    """Split a query into its own nodes and the queries nested in it; WITH is excluded."""
    nodes = list(_walk([value for key, value in query.items() if key != "cte_map"], _is_other))
    nested = [node for node in nodes if str(node.get("type")).endswith("_NODE")]
    return [node for node in nodes if not _is_other(node)], nested


def _is_other(node: Node) -> bool:
    """Whether a node belongs to another query, or names no columns of the tables of its own."""
    key = node.get("expression") if "null_order" in node else None
    return (
        str(node.get("type")).endswith("_NODE")
        # DESCRIBE needs names and types but no rows.
        or (node.get("type") == "SHOW_REF" and node.get("show_type") == "DESCRIBE")
        # ORDER BY ALL: the columns of the result, not of the table.
        or bool(key and key.get("type") == "STAR" and not key.get("expr"))
    )


def _words(node: Node) -> Iterator[str]:
    for value in node.values():
        if isinstance(value, str):
            yield value.lower()
        elif isinstance(value, list):
            yield from (item.lower() for item in value if isinstance(item, str))


def _walk(root: Any, is_leaf: Callable[[Node], bool] = lambda node: False) -> Iterator[Node]:
    """Yield the nodes below ``root``, but not those inside of leaves."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            yield node
            if not is_leaf(node):
                pending += node.values()


def _integer(node: Node | None) -> int | None:
    """Return the value of an integer constant."""
    _, text = _constant(node or {})
    return int(text) if text.isdigit() else None


def ctes(query: Node) -> list[tuple[str, Node]]:
    """Return the name and query of every common table expression of one query."""
    entries = (query.get("cte_map") or {}).get("map", [])
    return [(str(entry["key"]).lower(), query_of(entry["value"])) for entry in entries]


def query_of(holder: Node) -> Node:
    """Return the query node inside a subquery or common table expression, in either version's form."""
    node: Node = holder.get("query_node") or holder.get("query") or holder.get("subquery") or {}
    inner: Node = node.get("node", node)
    return inner


Offered = dict[str, str | None]
"""Column -> unit, all names in lower case."""
Tables = Mapping[str, Mapping[str, Column]]
"""Table, in lower case -> its columns."""


_KEEPS_UNIT = frozenset(files.load(Path(__file__).with_suffix(".toml"))["keeps_unit"].split())


def result_units(root: Node, names: list[str], tables: Tables) -> list[str | None]:
    """Return the unit of every result column that is a stored column or an aggregate that keeps its unit."""
    items = root.get("select_list", [])
    scope = _UnitScope(tables)
    if root.get("type") == "SELECT_NODE" and len(items) == len(names) and not any(map(_is_star, items)):
        sources = scope.inside(root).sources(root)
        return [_unit(item, sources) for item in items]
    by_name = scope.outputs(root)
    return [by_name.get(name.lower()) for name in names]


@dataclass
class _UnitScope:
    """Units of the tables and common table expressions visible to a query; each query is visited once."""

    tables: Tables
    ctes: Mapping[str, Node] = field(default_factory=dict)
    seen: dict[int, Offered] = field(default_factory=dict)

    def inside(self, query: Node) -> _UnitScope:
        """Return the scope inside ``query``, which adds its own WITH names."""
        return _UnitScope(self.tables, {**self.ctes, **dict(ctes(query))}, self.seen) if query.get("cte_map") else self

    def outputs(self, query: Node) -> Offered:
        """Return the units of the named output columns of any query."""
        if query.get("type") != "SELECT_NODE":
            return {}
        if id(query) in self.seen:
            return self.seen[id(query)]
        self.seen[id(query)] = units_by_column = Offered()  # also stops the recursion of a query that names itself
        sources = self.inside(query).sources(query)
        for item in query.get("select_list", []):
            if _is_star(item):
                units_by_column.update(sources)
                units_by_column.update({str(entry["key"]).lower(): None for entry in item.get("replace_list") or []})
            elif name := item.get("alias") or (item.get("column_names") or [""])[-1]:
                units_by_column[str(name).lower()] = _unit(item, sources)
        return units_by_column

    def sources(self, query: Node) -> Offered:
        """Return the unit of every column in the FROM clause of one SELECT; names with different units have none."""
        units_by_column = Offered()
        pending = [query.get("from_table") or {}]
        while pending:
            ref = pending.pop()
            if ref.get("type") == "BASE_TABLE":
                name = _table(ref)
                stored = self.tables.get(name, {}).items()
                offered = {column.lower(): facts.unit for column, facts in stored}
                if name in self.ctes:
                    offered = self.outputs(self.ctes[name])
            elif ref.get("type") == "SUBQUERY":
                offered = self.outputs(query_of(ref))
            else:
                pending += [ref[side] for side in ("left", "right") if isinstance(ref.get(side), dict)]
                continue
            for name, unit in offered.items():
                units_by_column[name] = unit if units_by_column.get(name, unit) == unit else None
        return units_by_column


def _is_star(item: Node) -> bool:
    return item.get("type") == "STAR"


def _unit(item: Node, sources: Mapping[str, str | None]) -> str | None:
    """Return the unit of a column, a cast of one, or a function that keeps the unit of its first argument."""
    while item:
        if item.get("type") == "COLUMN_REF":
            return sources.get(str(item["column_names"][-1]).lower())
        if str(item.get("function_name", "")).lower() in _KEEPS_UNIT:
            first = (item.get("arguments") or item.get("children") or [{}])[0]
            item = first.get("expression", first)
        elif item.get("class") == "CAST":
            item = item.get("child") or {}
        else:
            return None
    return None
