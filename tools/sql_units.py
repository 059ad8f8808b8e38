"""The units of the columns of a result, as far as the parsed query tells them."""

from __future__ import annotations

from collections.abc import Mapping

from .sql_references import Node, ctes, query_of

Offered = dict[str, str | None]
"""Column -> unit, all names in lower case."""
Units = Mapping[str, Mapping[str, str | None]]
"""Table -> column -> unit, all names in lower case."""

# fmt: off
_KEEPS_UNIT = frozenset((
    "sum", "avg", "mean", "min", "max", "median", "mode", "quantile", "quantile_cont", "quantile_disc", "mad",
    "approx_quantile", "stddev", "stddev_samp", "stddev_pop", "any_value", "first", "last", "arg_max", "arg_min",
    "first_value", "last_value", "lag", "lead", "abs", "round", "floor", "ceil", "trunc", "ifnull", "nullif",
    "greatest", "least",
))
"""Functions whose result has the unit of their first argument."""
# fmt: on


def result_units(root: Node, names: list[str], units: Units) -> list[str | None]:
    """The unit of every result column, where it is a stored column or an aggregate that keeps its unit."""
    items = root.get("select_list", [])
    scope = _Scope(units)
    if root.get("type") == "SELECT_NODE" and len(items) == len(names) and not any(map(_is_star, items)):
        sources = scope.inside(root).sources(root)
        return [_unit(item, sources) for item in items]
    by_name = scope.outputs(root)
    return [by_name.get(name.lower()) for name in names]


class _Scope:
    """Units of tables and common table expressions as one query sees them; each query is looked at once."""

    def __init__(self, units: Units, ctes: Mapping[str, Node] | None = None, seen: dict[int, Offered] | None = None):
        self.units, self.ctes, self.seen = units, ctes or {}, {} if seen is None else seen

    def inside(self, query: Node) -> _Scope:
        """The scope of what ``query`` contains: its own WITH names come on top."""
        return _Scope(self.units, {**self.ctes, **dict(ctes(query))}, self.seen) if query.get("cte_map") else self

    def outputs(self, query: Node) -> Offered:
        """Unit of the named output columns of any query."""
        if query.get("type") != "SELECT_NODE":
            return {}
        if id(query) in self.seen:
            return self.seen[id(query)]
        self.seen[id(query)] = found = Offered()  # also ends the recursion of a query that names itself
        sources = self.inside(query).sources(query)
        for item in query.get("select_list", []):
            if _is_star(item):
                found.update(sources)
                found.update({str(entry["key"]).lower(): None for entry in item.get("replace_list") or []})
            elif name := item.get("alias") or (item.get("column_names") or [""])[-1]:
                found[str(name).lower()] = _unit(item, sources)
        return found

    def sources(self, query: Node) -> Offered:
        """Unit of every column that the FROM clause of one SELECT offers; names that disagree have none."""
        found = Offered()
        pending = [query.get("from_table") or {}]
        while pending:
            ref = pending.pop()
            if ref.get("type") == "BASE_TABLE":
                name = str(ref["table_name"]).lower()
                offered = self.outputs(self.ctes[name]) if name in self.ctes else self.units.get(name, {})
            elif ref.get("type") == "SUBQUERY":
                offered = self.outputs(query_of(ref))
            else:
                pending += [ref[side] for side in ("left", "right") if isinstance(ref.get(side), dict)]
                continue
            for name, unit in offered.items():
                found[name] = unit if found.get(name, unit) == unit else None
        return found


def _is_star(item: Node) -> bool:
    return item.get("type") == "STAR"


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
