"""What a parsed query refers to: tables, columns, functions, its row limit and the units of its result.

The tree is DuckDB's own (json_serialize_sql); 1.5 and 2.0 name a few of its parts differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Node = dict[str, Any]
Units = Mapping[str, Mapping[str, str | None]]
"""Table -> column -> unit, all names in lower case."""

_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
# fmt: off
_KEEPS_UNIT = frozenset((
    "sum", "avg", "mean", "min", "max", "median", "mode", "quantile", "quantile_cont", "quantile_disc", "mad",
    "approx_quantile", "stddev", "stddev_samp", "stddev_pop", "any_value", "first", "last", "arg_max", "arg_min",
    "first_value", "last_value", "lag", "lead", "abs", "round", "floor", "ceil", "trunc", "ifnull", "nullif",
    "greatest", "least",
))
"""Functions whose result has the unit of their first argument."""
# fmt: on


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
    defined: set[str] = set()
    for node in _all_nodes(root):
        defined |= {str(entry["key"]).lower() for entry in (node.get("cte_map") or {}).get("map", [])}
        kind = str(node.get("type"))
        found.writes |= kind.endswith("_NODE") and kind not in _QUERIES
        if "function_name" in node:
            found.functions.add(str(node["function_name"]).lower())
        if kind == "TABLE_FUNCTION":
            found.table_functions.add(str((node.get("function") or {}).get("function_name")).lower())
    aliases: dict[str, set[str]] = {}
    rows: set[str] = set()
    queries: list[Node] = [root]
    while queries:
        query = queries.pop()
        inside, nested = _parts(query)
        queries += nested
        own = [n for n in inside if n.get("type") == "BASE_TABLE"]
        names = {str(n["table_name"]).lower() for n in own}
        found.foreign |= names - known.keys()
        found.tables |= names & known.keys()
        for node in own:
            name = str(node["table_name"]).lower()
            aliases.setdefault(str(node.get("alias") or name).lower(), set()).add(name)
            if node.get("column_name_alias"):
                found.whole.add(name)
        for node in (query, *inside):
            found.words.update(_words(node))
            column = node.get("column_names")
            if isinstance(column, list) and len(column) == 1:
                rows.add(str(column[0]).lower())
            if node.get("type") == "STAR" and node.get("relation_name"):
                rows.add(str(node["relation_name"]).lower())
            elif node.get("type") in ("STAR", "POSITIONAL_REFERENCE", "PIVOT") or node.get("ref_type") == "NATURAL":
                found.whole |= names
    found.foreign -= defined
    for name in rows:
        found.whole |= aliases.get(name, set())
    found.whole &= known.keys()
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


def result_units(root: Node, names: list[str], units: Units) -> list[str | None]:
    """The unit of every result column, where it is a stored column or an aggregate that keeps its unit."""
    items = root.get("select_list", [])
    if root.get("type") == "SELECT_NODE" and not any(item.get("type") == "STAR" for item in items):
        sources = _source_units(root, units)
        found = [_unit(item, sources) for item in items]
        return found if len(found) == len(names) else [None] * len(names)
    by_name = _output_units(root, units)
    return [by_name.get(name.lower()) for name in names]


def _parts(query: Node) -> tuple[list[Node], list[Node]]:
    """The nodes of one query without those of the queries nested in it, and these."""
    inside: list[Node] = []
    nested: list[Node] = []
    todo: list[Any] = list(query.values())
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
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
            todo += node.values()
    return inside, nested


def _words(node: Node) -> Iterator[str]:
    for value in node.values():
        if isinstance(value, str):
            yield value.lower()
        elif isinstance(value, list):
            yield from (item.lower() for item in value if isinstance(item, str))


def _all_nodes(root: Node) -> Iterator[Node]:
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            yield node
            todo += node.values()
        elif isinstance(node, list):
            todo += node


def _integer(node: Node | None) -> int | None:
    """The value of a constant of an integer type, in the form of either DuckDB version."""
    if not node or node.get("type") != "VALUE_CONSTANT":
        return None
    value = node.get("literal", {}).get("text") if "literal" in node else node.get("value", {}).get("value")
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else None


def _source_units(query: Node, units: Units) -> dict[str, str | None]:
    """Unit of every column that the FROM clause of one SELECT offers; names that disagree have none."""
    ctes = {str(e["key"]).lower(): e["value"] for e in (query.get("cte_map") or {}).get("map", [])}
    found: dict[str, str | None] = {}
    todo = [query.get("from_table") or {}]
    while todo:
        ref = todo.pop()
        if ref.get("type") == "BASE_TABLE":
            name = str(ref["table_name"]).lower()
            offered = _output_units(_query_of(ctes[name]), units) if name in ctes else units.get(name, {})
        elif ref.get("type") == "SUBQUERY":
            offered = _output_units(_query_of(ref), units)
        else:
            todo += [ref[side] for side in ("left", "right") if isinstance(ref.get(side), dict)]
            continue
        for name, unit in offered.items():
            found[name] = unit if found.get(name, unit) == unit else None
    return found


def _output_units(query: Node, units: Units) -> dict[str, str | None]:
    """Unit of the named output columns of any query."""
    if query.get("type") != "SELECT_NODE":
        return {}
    sources, found = _source_units(query, units), dict[str, str | None]()
    for item in query.get("select_list", []):
        if item.get("type") == "STAR":
            found.update(sources)
            found.update({str(entry.get("key")).lower(): None for entry in item.get("replace_list") or []})
        elif name := item.get("alias") or (item.get("column_names") or [""])[-1]:
            found[str(name).lower()] = _unit(item, sources)
    return found


def _query_of(holder: Node) -> Node:
    """The query node inside a subquery or a common table expression, in either version's form."""
    node: Node = holder.get("query_node") or holder.get("query") or holder.get("subquery") or {}
    inner: Node = node.get("node", node)
    return inner


def _unit(item: Node, sources: Mapping[str, str | None]) -> str | None:
    """Unit of an expression: a column, a cast of one, or a function that keeps the unit of its first argument."""
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
