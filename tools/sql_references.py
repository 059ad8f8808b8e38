"""What a parsed query refers to: tables, columns, functions, and how many rows it needs.

The tree is DuckDB's own (json_serialize_sql); 1.5 and 2.0 name a few of its parts differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Node = dict[str, Any]
_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")


@dataclass
class References:
    """Everything that a query names, in lower case, and which tables it needs whole."""

    tables: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    """Tables of which every column is needed: SELECT *, COLUMNS(...), NATURAL JOIN, PIVOT, a row as a value."""
    words: set[str] = field(default_factory=set)
    """Every name and text in the query; a column that is not among them cannot be used by it."""
    functions: set[str] = field(default_factory=set)
    table_functions: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    """Tables that are neither ours nor defined by the query itself, such as those of information_schema."""
    writes: bool = False
    """Whether a data-modifying statement hides inside."""


def references(root: Node, known: Mapping[str, Any]) -> References:
    """Everything the query ``root`` refers to; ``known`` holds our tables by their lower-case names."""
    found = References()
    for node in _all_nodes(root):
        kind = str(node.get("type"))
        found.words.update(_words(node))
        found.writes |= kind.endswith("_NODE") and kind not in _QUERIES
        if "function_name" in node:
            found.functions.add(str(node["function_name"]).lower())
        if kind == "TABLE_FUNCTION":
            found.table_functions.add(str((node.get("function") or {}).get("function_name")).lower())
    aliases: dict[str, set[str]] = {}
    rows: set[str] = set()
    queries: list[tuple[Node, frozenset[str]]] = [(root, frozenset())]
    while queries:
        query, defined = queries.pop()
        if query.get("cte_name"):
            defined |= {str(query["cte_name"]).lower()}
        for name, body in ctes(query):
            queries.append((body, defined))
            defined |= {name}
        inside, nested = _parts(query)
        queries += [(inner, defined) for inner in nested]
        own = [node for node in inside if node.get("type") == "BASE_TABLE"]
        names = {str(node["table_name"]).lower() for node in own} - defined
        found.foreign |= names - known.keys()
        found.tables |= names & known.keys()
        for node in own:
            name = str(node["table_name"]).lower()
            aliases.setdefault(str(node.get("alias") or name).lower(), set()).add(name)
            if node.get("column_name_alias"):
                found.whole.add(name)
        for node in (query, *inside):
            if node.get("column_names"):
                rows.add(str(node["column_names"][-1]).lower())
            if node.get("type") == "STAR" and node.get("relation_name"):
                rows.add(str(node["relation_name"]).lower())
            elif node.get("type") in ("STAR", "POSITIONAL_REFERENCE", "PIVOT") or node.get("ref_type") == "NATURAL":
                found.whole |= names
    for name in rows:
        found.whole |= aliases.get(name, set())
    found.whole &= found.tables
    return found


def row_limit(root: Node, limit: int) -> tuple[str, int, bool] | None:
    """(table, rows, whether the query has no limit of its own) when the first rows of one table suffice, else None.

    True of ``SELECT columns FROM table [LIMIT n] [OFFSET m]`` and nothing more; the caller reads ``limit`` rows.
    """
    table = root.get("from_table", {})
    plain = {"type", "modifiers", "select_list", "from_table", "aggregate_handling", "cte_map"}
    if table.get("type") != "BASE_TABLE" or "sample" in table or any(root[key] for key in root.keys() - plain):
        return None
    if root.get("cte_map") or root.get("aggregate_handling") != "STANDARD_HANDLING":
        return None
    for item in root["select_list"]:
        if item.get("type") not in ("STAR", "COLUMN_REF") or item.get("replace_list") or item.get("expr"):
            return None
    name, modifiers = str(table["table_name"]).lower(), root.get("modifiers", [])
    if not modifiers:
        return name, limit, True
    if len(modifiers) > 1 or modifiers[0].get("type") != "LIMIT_MODIFIER":
        return None
    own, offset = _integer(modifiers[0].get("limit")), _integer(modifiers[0].get("offset"))
    if own is None or (modifiers[0].get("offset") and offset is None):
        return None
    return name, own + (offset or 0), False


def _parts(query: Node) -> tuple[list[Node], list[Node]]:
    """The nodes of one query without those of the queries nested in it, and these; WITH is left out."""
    inside: list[Node] = []
    nested: list[Node] = []
    pending: list[Any] = [value for key, value in query.items() if key != "cte_map"]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            if str(node.get("type")).endswith("_NODE"):
                nested.append(node)
                continue
            if node.get("type") == "SHOW_REF" and node.get("show_type") == "DESCRIBE":
                continue  # needs names and types, no rows
            key = node.get("expression") if "null_order" in node else None
            if key and key.get("type") == "STAR" and not key.get("expr"):
                continue  # ORDER BY ALL: the columns of the result, not of the table
            inside.append(node)
            pending += node.values()
    return inside, nested


def _words(node: Node) -> Iterator[str]:
    for value in node.values():
        if isinstance(value, str):
            yield value.lower()
        elif isinstance(value, list):
            yield from (item.lower() for item in value if isinstance(item, str))


def _all_nodes(root: Node) -> Iterator[Node]:
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def _integer(node: Node | None) -> int | None:
    """The value of a constant of an integer type, in the form of either DuckDB version."""
    if not node or node.get("type") != "VALUE_CONSTANT":
        return None
    value = node.get("literal", {}).get("text") if "literal" in node else node.get("value", {}).get("value")
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else None


def ctes(query: Node) -> list[tuple[str, Node]]:
    """Name and query of every common table expression of one query."""
    entries = (query.get("cte_map") or {}).get("map", [])
    return [(str(entry["key"]).lower(), query_of(entry["value"])) for entry in entries]


def query_of(holder: Node) -> Node:
    """The query node inside a subquery or a common table expression, in either version's form."""
    node: Node = holder.get("query_node") or holder.get("query") or holder.get("subquery") or {}
    inner: Node = node.get("node", node)
    return inner
