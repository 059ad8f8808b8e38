"""Evaluate the expressions of rules and signals, which are SQL over metric names, for the figures of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..base.database import run_prepared, sql_name
from ..catalogue import rules
from ..catalogue.formula import paths
from .evaluation import IMPOSSIBLE_PCT, Figure, finite_value

Values = Mapping[str, float | None]
_GIVEN_PREFIX = "given."


def inputs_of(figures: Mapping[str, Figure], facts: Mapping[str, float]) -> dict[str, float | None]:
    """The inputs of expressions for one kernel: metrics, pct_of_peak.<metric> and facts; None if unreliable."""
    inputs: dict[str, float | None] = {f"{rules.FACT}{name}": value for name, value in facts.items()}
    for name, figure in figures.items():
        usable = figure.status in ("ok", "suspect")
        inputs[name] = figure.value if usable else None
        if figure.metric.peak:
            inputs[rules.PEAK + name] = figure.pct_of_peak if usable else None
    return inputs


def evaluate(
    target: str, inputs: Sequence[Values], expressions: Iterable[str], given: Sequence[Values] = ()
) -> list[dict[str, float | None]]:
    """The value of every expression for each kernel: 1 and 0 for true and false, None if an input is missing.

    In expressions, metrics are fields of structures (hbm.bw_gbs), and so are signals. ``given`` contains, for each
    kernel, the signals whose values are already known, with the same names for all. An impossible signal, a share of
    more than its whole, counts as missing.
    """
    wanted = list(dict.fromkeys(expressions))
    if not wanted or not inputs:
        return [{} for _ in inputs]
    signals = rules.signals(target)
    read = {name for e in wanted for name in paths(e)}
    fixed = sorted(read.intersection(*given)) if given else []
    own = [name for name in signals if name in read and name not in fixed]
    names = sorted((read - set(fixed) - set(own)).union(*(paths(e) for name in own for e in signals[name].expressions)))
    rows = {name: [one.get(name) for one in inputs] for name in names}
    rows |= {_GIVEN_PREFIX + name: [one.get(name) for one in given] for name in fixed}
    columns = {name: f"c{i}" for i, name in enumerate(rows)}
    lists = ", ".join(f"unnest(${i + 2}::DOUBLE[]) AS c{i}" for i in range(len(rows)))
    structure_items = structures(
        {name: _possible_value(signals[name]) for name in own} | {name: _GIVEN_PREFIX + name for name in fixed}
    )
    value_rows = run_prepared(
        f"SELECT {', '.join(f'({e})::DOUBLE' for e in wanted)} "
        f"FROM (SELECT *{f', {structure_items}' if structure_items else ''} "
        f"FROM (SELECT {', '.join(filter(None, ['place', structures(columns)]))} "
        f"FROM (SELECT {', '.join(filter(None, ['unnest($1::DOUBLE[]) AS place', lists]))}))) ORDER BY place",
        [range(len(inputs)), *([finite_value(value) for value in values] for values in rows.values())],
    )
    return [dict(zip(wanted, map(finite_value, row), strict=True)) for row in value_rows]


def _possible_value(signal: rules.Signal) -> str:
    """SQL for the value of a signal; a share of more than its whole is NULL."""
    return f"CASE WHEN {signal.sql} <= {IMPOSSIBLE_PCT} THEN {signal.sql} END" if signal.whole else signal.sql


def structures(columns: Mapping[str, str]) -> str:
    """Select items that turn ``columns`` (dotted name -> SQL) into structures: hbm.bw_gbs is field bw_gbs of hbm."""
    return ", ".join(f"{sql} AS {sql_name(head)}" for head, sql in _pack_structures(columns).items())


def _pack_structures(columns: Mapping[str, str]) -> dict[str, str]:
    """First part of the names -> SQL of the structure with the remaining parts as its fields."""
    heads: dict[str, dict[str, str]] = {}
    for name, sql in columns.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, {})[rest] = sql
    packed = {}
    for head, fields in heads.items():
        inner = {name: sql for name, sql in fields.items() if "." not in name}
        inner |= _pack_structures({name: sql for name, sql in fields.items() if "." in name})
        packed[head] = f"struct_pack({', '.join(f'{sql_name(name)} := {sql}' for name, sql in inner.items())})"
    return packed
