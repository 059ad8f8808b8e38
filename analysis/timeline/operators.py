"""Operators of PyTorch against their roofline: device time, floating-point operations and bytes by recorded shapes.

Device work belongs to the innermost operator in which it was launched. The replay of a graph belongs to no operator,
because the graph was recorded earlier. Formulas and their sources are in operators.toml.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise, zip_longest
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli

from ..base.database import sql_literal
from ..base.notes import Note
from ..base.problems import NotFound
from ..rooflines.ceilings import Ceilings, choose
from ..workload import Workload
from .host_clocks import column_names
from .rules import rules
from .trace import Ints, Trace, Window

_MOST = 10_000
"""The number of different operators with their arguments that are examined, those with the most time first."""
_LONGEST = 400
"""Characters shown of the sizes and of the types of an operator."""
_LARGEST = 1 << 53
"""Tensors have fewer elements."""
_DEVICE = "('kernel', 'copy', 'fill')"
_LINK = "('h2d', 'd2h', 'p2p', 'h2h')"
_LISTS = {"d": "DOUBLE[][]", "n": "DOUBLE[]", "b": "DOUBLE[]", "s": "DOUBLE[]", "v": "DOUBLE[]", "l": "DOUBLE[][]"}
_REASONS = {
    "graph": "replays of graphs belong to no operator",
    "outside": "no operator is known around the launch",
    "no_shapes": "no sizes of its arguments were recorded (record_shapes=True records them)",
    "no_formula": "no formula for this operator",
    "arguments": "these arguments do not determine it",
    "link": "copies from or to the host, and collectives, depend on links, not on the memory of the device",
    "types": "the size of a type is unknown",
    "rest": "too many different operators: not examined",
    "no_ceiling": "the peak of the device is unknown",
}


_UNKNOWN = (None, None)
"""What is known of a type that is not listed."""
_Arguments = tuple[list[Any], list[str], list[str]]
"""The sizes, types and values of the arguments of a call, as the profiler wrote them."""
Row = dict[str, Any]
"""An operator with one set of shapes and types, by the columns of the table operators; ``operator`` is None for work
without one. Figures are sums over all calls; if one is None, ``reason`` says why."""
_NOTHING: Row = dict.fromkeys(
    ("operator", "sizes", "types", "category", "calls", "ns", "flop", "bytes", "least_ns", "bound", "reason")
)


@dataclass(frozen=True)
class Operators:
    """The operators, longest time first; their times add up to the time of all device work."""

    rows: Sequence[Row]
    notes: Sequence[Note] = ()

    @property
    def shape_rows(self) -> list[Row]:
        """The operators whose shapes were recorded."""
        return [row for row in self.rows if row["operator"] is not None and row["sizes"] is not None]


class _Launched(NamedTuple):
    """The device work of an operator with one list of arguments; ``what`` is None for an operator, or a reason."""

    what: str | None
    name: str | None
    arguments: str | None
    calls: int
    ns: int
    tf32: bool
    link: bool


def operators(trace: Trace, windows: Sequence[Window] | None = None) -> Operators:
    """Return the operators whose device work begins in the windows, or in the whole trace; empty without shapes."""
    if not (trace.ranges and _has_shapes(trace)):
        return Operators([])
    launched = _launching_operators(trace, windows or [trace.whole])
    examined = [one for one in launched if one.what is None and one.arguments][:_MOST]
    ceilings = _ceilings(trace.workload)
    calls = [(one, _rule_of(one.name or ""), _parse_arguments(one.arguments or "")) for one in examined]
    work = _evaluate(
        trace.workload,
        [
            {"i": i, "rule": rule["pattern"]} | _variables(*known)
            for i, (_, rule, known) in enumerate(calls)
            if rule and known
        ],
    )
    rows = [_row(*call, work.get(number, (None, None)), ceilings) for number, call in enumerate(calls)]
    kept = set(examined)
    rest = [_row_without_work(one) for one in launched if one not in kept]
    merged = sorted(_merge([*rows, *rest]), key=lambda row: (-row["ns"], row["operator"] or "", row["sizes"] or ""))
    return Operators(merged, _notes(merged, ceilings))


# -- device work by operator -----------------------------------------------------------------------


def _has_shapes(trace: Trace) -> bool:
    """Whether any operator has shapes."""
    ranges = trace.workload.relation("ranges")
    if "arguments" not in column_names(trace.workload, ranges):
        return False
    return bool(trace.rows(f"SELECT 1 FROM {ranges} WHERE arguments IS NOT NULL LIMIT 1"))


def _launching_operators(trace: Trace, windows: Sequence[Window]) -> list[_Launched]:
    """Return the device work by operator and arguments, and that of no operator, longest time first."""
    con, ranges = trace.workload.cursor, trace.workload.relation("ranges")
    pattern = sql_literal(_data()["kernels"]["tf32"])
    names = [name for (name,) in trace.rows(f"SELECT name FROM tl_kernels WHERE regexp_matches(name, {pattern})")]
    in_tf32 = f"name IN ({', '.join(map(sql_literal, names))})" if names else "false"
    work = con.execute(
        "SELECT coalesce(range_id, -1) AS range_id, replay, count(*) AS n, sum(end_ns - start_ns)::BIGINT AS ns, "
        f"bool_or(coalesce({in_tf32}, false)) AS tf32, "
        f"bool_or(coalesce(direction IN {_LINK}, false)) AS link FROM {_begun_within(trace, windows)} GROUP BY ALL"
    ).fetchnumpy()
    held = {name: np.ma.getdata(column) for name, column in work.items()}
    held["operator"] = np.where(held["replay"], -1, _operator_around(trace, held["range_id"]))
    con.register("launched_work", held)
    try:
        rows = con.execute(
            "WITH o AS (SELECT operator, replay, sum(ns)::BIGINT AS ns, sum(n)::BIGINT AS n, bool_or(tf32) AS tf32, "
            "bool_or(link) AS link FROM launched_work GROUP BY ALL) "
            "SELECT CASE WHEN replay THEN 'graph' WHEN operator < 0 THEN 'outside' END AS what, r.name, r.arguments, "
            "count(*), sum(ns)::BIGINT AS total, bool_or(tf32), bool_or(link) "
            f"FROM o LEFT JOIN {ranges} r ON r.range_id = o.operator GROUP BY ALL ORDER BY total DESC, 1, 2, 3"
        ).fetchall()
    finally:
        con.unregister("launched_work")
    return [_Launched(*row) for row in rows]


def _begun_within(trace: Trace, windows: Sequence[Window]) -> str:
    """SQL for the device work that begins in the windows, with a flag for the replays of graphs."""
    first, last = min(w.start for w in windows), max(w.end for w in windows)
    source = f"(FROM {trace.events} WHERE kind IN {_DEVICE} AND start_ns BETWEEN {first} AND {last})"
    if len(windows) > 1:
        listed = ", ".join(f"({w.start}, {w.end})" for w in windows)
        source = (
            f"(SELECT e.* FROM {source} e ASOF JOIN (VALUES {listed}) w(w0, w1) ON e.start_ns >= w0 "
            "WHERE e.start_ns < w1)"
        )
    own = ("pid", "rank", "host", "correlation")
    replays = (
        f"(SELECT DISTINCT {', '.join(own)}, true AS replay FROM {trace.events} WHERE kind NOT IN {_DEVICE} AND "
        f"correlation IS NOT NULL AND regexp_matches(name, {sql_literal(rules().launches.graph)}))"
    )
    same = " AND ".join(f"g.{column} IS NOT DISTINCT FROM e.{column}" for column in own)
    return f"(SELECT e.*, coalesce(g.replay, false) AS replay FROM {source} e LEFT JOIN {replays} g ON {same})"


def _operator_around(trace: Trace, launchers: Ints) -> Ints:
    """Return for each range the innermost whole operator that it is or lies in, or -1.

    Ranges are numbered outermost first, thread by thread, so that the range around one is the last one before it with
    a smaller depth. Parts of operators (``within`` in operators.toml) count only if no operator is around them.
    """
    columns = trace.workload.cursor.execute(
        "SELECT range_id, coalesce(depth, 0) AS depth, coalesce(source, '') = 'torch' AS torch, "
        f"torch AND NOT coalesce(regexp_full_match(name, {sql_literal(_data()['within'])}), false) AS whole "
        f"FROM {trace.workload.relation('ranges')} ORDER BY range_id"
    ).fetchnumpy()
    ids, depth, torch, whole = (np.ma.getdata(columns[name]) for name in ("range_id", "depth", "torch", "whole"))
    around = np.where(torch, ids, -1)
    at = np.searchsorted(ids, launchers)
    known = (launchers >= 0) & (ids[np.minimum(at, len(ids) - 1)] == launchers)
    if not whole[at[known]].all():
        by_depth = np.argsort(depth, kind="stable")
        edges = np.flatnonzero(np.diff(depth[by_depth])) + 1
        levels = np.split(by_depth, edges)
        for above, level in pairwise(levels):
            parent = above[np.maximum(np.searchsorted(above, level) - 1, 0)]
            outer = around[parent]
            around[level] = np.where(whole[level] | (torch[level] & (outer < 0)), ids[level], outer)
    result: Ints = np.where(known, around[np.minimum(at, len(ids) - 1)], -1)
    return result


# -- operations and bytes --------------------------------------------------------------------------


@cache
def _data() -> dict[str, Any]:
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def _rule_of(name: str) -> dict[str, Any] | None:
    """Return the entry of operators.toml for an operator."""
    return next((rule for rule in _data()["operator"] if re.fullmatch(rule["pattern"], name)), None)


def _evaluate(workload: Workload, variables: Sequence[Mapping[str, Any]]) -> dict[int, Sequence[Any]]:
    """Return the operations and bytes of each entry by its number ``i``."""
    if not variables:
        return {}
    con = workload.cursor
    for head, body in _data()["macros"].items():
        con.execute(f"CREATE OR REPLACE TEMP MACRO {head} AS {body}")
    used = {entry["rule"] for entry in variables}
    flop, moved = (
        " ".join(
            f"WHEN {sql_literal(rule['pattern'])} THEN ({rule[what]})::DOUBLE"
            for rule in _data()["operator"]
            if rule["pattern"] in used
        )
        for what in ("flop", "bytes")
    )
    kinds = json.dumps([{"i": "BIGINT", "rule": "VARCHAR", "out": "DOUBLE", "wide": "DOUBLE"} | _LISTS])
    rows = con.execute(
        f"WITH listed AS (SELECT unnest(from_json(?::JSON, {sql_literal(kinds)})) AS call) "
        f"SELECT i, CASE rule {flop} END, CASE rule {moved} END FROM (SELECT call.* FROM listed)",
        [json.dumps(list(variables))],
    ).fetchall()
    return {number: work for number, *work in rows}


def _parse_arguments(text: str) -> _Arguments | None:
    """Return the sizes, types and values from the column ``arguments``; None if it is not such a list."""
    try:
        stated = json.loads(text)
    except ValueError:
        return None
    if type(stated) is not list or len(stated) != 3 or type(stated[0]) is not list:
        return None
    count = len(stated[0])
    types, values = (
        [str(each)[:_LONGEST] for each in given][:count] if type(given) is list else [""] * count
        for given in stated[1:]
    )
    return stated[0], types, values


def _variables(sizes: list[Any], types: list[str], values: list[str]) -> dict[str, Any]:
    """Return the variables of the formulas; unknown ones are None, such as those of lists of tensors."""
    tensors, widths = list[Any](), list[Any]()
    for size, kind in zip_longest(sizes, types):
        width, _ = _data()["types"].get(kind, _UNKNOWN)
        known = type(size) is list and all(type(side) is int and 0 <= side < _LARGEST for side in size)
        known = known and (size or width) and math.prod(size) < _LARGEST
        tensors.append(size if known else None)
        widths.append(width if known else None)
    elements = [None if size is None else math.prod(size) for size in tensors]
    return {
        "d": tensors,
        "n": elements,
        "s": widths,
        "b": [None if n is None or s is None else n * s for n, s in zip(elements, widths, strict=True)],
        "v": [_value(text) for text in values],
        "l": [_list(text) for text in values],
        "out": _broadcast([size for size in tensors if size is not None]),
        "wide": max((s for s, size in zip(widths, tensors, strict=True) if s and size), default=(widths or [None])[0]),
    }


def _value(text: str) -> float | None:
    if text in ("True", "False"):
        return float(text == "True")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _list(text: str) -> list[float | None] | None:
    return [_value(each.strip()) for each in text[1:-1].split(",")] if text[:1] == "[" else None


def _broadcast(sizes: Sequence[Sequence[int]]) -> float | None:
    """Return the elements of the tensors' common shape; None without tensors, or if no memory can contain them."""
    if not sizes:
        return None
    rank = max(map(len, sizes))
    padded = [[1] * (rank - len(size)) + list(size) for size in sizes]
    elements = math.prod(max(sides) if min(sides) else 0 for sides in zip(*padded, strict=True))
    return float(elements) if elements < _LARGEST else None


# -- rooflines -------------------------------------------------------------------------------------


def _ceilings(workload: Workload) -> Ceilings | None:
    try:
        return choose(workload, "empirical")[0]
    except NotFound:  # the target is unknown
        return None


def _row(
    one: _Launched,
    rule: dict[str, Any] | None,
    arguments: _Arguments | None,
    work: Sequence[float | None],
    ceilings: Ceilings | None,
) -> Row:
    """Return the row of an operator from the operations and bytes of one call: all calls against the ceilings."""
    stated = arguments[1] if arguments else []
    unit, at = (rule["unit"], rule.get("typed", 1)) if rule else ("", 1)
    _, datatype = _data()["types"].get(stated[at - 1], _UNKNOWN) if len(stated) >= at else _UNKNOWN
    flop, moved = (
        one.calls * value if value is not None and math.isfinite(value) and value >= 0 else None for value in work
    )
    if unit == "vector" and datatype in ("integer", "i8"):
        flop = 0.0  # operations on integers are no floating-point operations
    is_link = one.link or unit == "link"
    texts = [json.dumps(each, separators=(",", ":"))[:_LONGEST] for each in arguments[:2]] if arguments else [None] * 2
    row = _NOTHING | dict(zip(("sizes", "types"), texts, strict=True))
    row |= {"operator": one.name, "category": rule and rule["category"], "calls": one.calls, "ns": one.ns}
    row |= {"flop": flop, "bytes": None if is_link else moved}
    reasons = {
        "link": is_link,
        "arguments": arguments is None or (rule and datatype and None in (flop, moved)),
        "no_formula": rule is None,
        "types": datatype is None,
    }
    if why := next((why for why, applies in reasons.items() if applies), None):
        return row | {"reason": _REASONS[why]}
    assert flop is not None and moved is not None
    datatype = "tf32" if one.tf32 and datatype == "f32" and unit == "matrix" else datatype
    names = _data()["peaks"].get(unit, {}).get(datatype, [])
    name, peak = next(((n, v) for n in names if ceilings and (v := ceilings.value(n))), (None, None))
    memory = ceilings.value("hbm.bw") if ceilings else None
    if memory is None or (peak is None and flop):
        return row | {"reason": _REASONS["no_ceiling"]}
    # Rates in GFLOP/s and GB/s are operations and bytes per ns.
    moving, computing = moved / memory, flop / peak if peak else 0.0
    return row | {"least_ns": max(moving, computing), "bound": name if computing > moving else "hbm.bw"}


def _row_without_work(one: _Launched) -> Row:
    """Return the row of work without an operator, of an operator without shapes, or of one beyond the limit."""
    what = one.what or ("no_shapes" if one.arguments is None else "rest")
    known = {"operator": one.name, "calls": one.calls} if what == "no_shapes" else {}
    return _NOTHING | known | {"ns": one.ns, "reason": _REASONS[what]}


def _merge(rows: Iterable[Row]) -> list[Row]:
    """Add up rows that differ in values only, such as an epsilon; a figure that one of them lacks has no sum."""
    same: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        same[row["operator"], row["sizes"], row["types"], row["operator"] is None and row["reason"]].append(row)
    merged = []
    for some in same.values():
        columns = {name: [row[name] for row in some] for name in ("calls", "ns", "flop", "bytes", "least_ns")}
        sums = {name: None if None in values else reduce(add, values) for name, values in columns.items()}
        merged.append(_with_rates(some[0] | sums | {"reason": next((r["reason"] for r in some if r["reason"]), None)}))
    return merged


def _with_rates(row: Row) -> Row:
    """Return a row with its rates in TFLOP/s and GB/s, FLOP per byte, and the least time in % of the time, which is
    above 100 % if data came from a cache."""

    def ratio(name: str, other: str, factor: int = 1) -> float | None:
        return factor * row[name] / row[other] if row[name] is not None and row[other] else None

    rate = ratio("flop", "ns")
    rates = {"tflops": rate and rate / 1e3, "gbs": ratio("bytes", "ns"), "intensity": ratio("flop", "bytes")}
    return row | rates | {"roofline_pct": ratio("least_ns", "ns", 100)}


def _notes(rows: Sequence[Row], ceilings: Ceilings | None) -> list[Note]:
    """State how much of the device's work has no operator with shapes, and the kind of the ceilings."""
    total = sum(row["ns"] for row in rows)
    lacking: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["sizes"] is None and row["reason"]:
            lacking[row["reason"]] += row["ns"]
    notes = []
    if lacking and total:
        parts = "; ".join(f"{100 * ns / total:.3g} % {why}" for why, ns in lacking.items())
        notes.append(Note("operators_uncovered", f"Time of device work without an operator's shapes: {parts}."))
    if ceilings and any(row["least_ns"] is not None for row in rows):
        kind = "measured" if ceilings.kind == "empirical" else "theoretical"
        notes.append(
            Note("operator_ceilings", f"The least times of operators use the {kind} ceilings of {ceilings.device}.")
        )
    return notes
