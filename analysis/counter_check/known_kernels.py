"""The table of kernels with known work: which launches a device runs, and the work of each launch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal

from ..base.database import connect, sql_name
from ..base.problems import BadInput
from ..catalogue import files, targets
from ..catalogue.files import CatalogueModel
from ..catalogue.formula import references


def solve_expressions(expressions: Mapping[str, str], inputs: Mapping[str, float]) -> dict[str, float | None]:
    """The value of every expression, or None if an input is missing or the divisor is zero.

    Expressions may refer to each other in any order. An expression takes precedence over an input of the same name.
    Raises BadInput for circular references.
    """
    known = {name: value for name, value in inputs.items() if name not in expressions and math.isfinite(value)}
    needs = references(expressions.values())
    order = TopologicalSorter(
        {name: sorted(needs[formula] & expressions.keys()) for name, formula in expressions.items()}
    )
    try:
        order.prepare()
    except CycleError as error:
        circle = error.args[1]
        raise BadInput(f"{circle[0]} depends on itself", " <- ".join(circle)) from error
    used = sorted(set().union(*needs.values()) & known.keys())
    query = "SELECT " + (", ".join(f"{known[n]!r}::DOUBLE AS {sql_name(n)}" for n in used) or "0 AS nothing")
    solved: list[str] = []
    while ready := order.get_ready():
        order.done(*ready)
        level = [name for name in ready if needs[expressions[name]] <= {*known, *solved}]
        items = "".join(f", ({expressions[name]})::DOUBLE AS {sql_name(name)}" for name in level)
        query = f"SELECT *{items} FROM ({query})"
        solved += level
    if not solved:
        return dict.fromkeys(expressions)
    with connect() as con:
        row = con.execute(f"SELECT {', '.join(map(sql_name, solved))} FROM ({query})").fetchone()
    values = zip(solved, row or (), strict=True)
    finite = {name: value for name, value in values if value is not None and math.isfinite(value)}
    return {name: finite.get(name) for name in expressions}


_FILE = Path(__file__).with_name("kernels.toml")
Data = Literal["", "f16", "f32", "f64", "i32"]
_SIZES = ("groups", "rounds", "step", "keep", "above", "reads", "writes")


class _KernelSource(CatalogueModel):
    """What a kernel and its launches have in common."""

    name: str
    source: str
    original: str = ""
    """Its name in the source, if it differs."""
    threads: int = 256
    data: Data = ""
    shared_bytes: int = 0


class KnownKernel(_KernelSource):
    """One kernel on one target; the comment at the top of kernels.toml explains the fields."""

    groups: str
    rounds: str
    step: str = "0"
    keep: str = "0"
    above: str = "0"
    """The contents of the upper half of ``step``."""
    reads: str
    writes: str
    given: dict[str, float] = {}
    result: str = ""
    quantities: dict[str, str]


class KnownLaunch(_KernelSource):
    """One launch of a kernel on one device, in numbers."""

    groups: int
    rounds: int
    step: int
    keep: int
    above: int = 0
    reads: int
    writes: int
    result: float | None = None
    quantities: dict[str, float]
    """The known quantities of the whole launch, by name."""


@cache
def kernels(target: str) -> tuple[KnownKernel, ...]:
    """The kernels for a target, in execution order."""
    table = files.load(_FILE)
    entries = (entry for entry in table["kernel"] if targets.holds(entry.get("gpus"), target))
    return tuple(_kernel(entry, target, table) for entry in entries)


def _kernel(entry: dict[str, Any], target: str, table: dict[str, Any]) -> KnownKernel:
    """The entry, extended by its kind, the vendor and the target; quantities are added, not replaced."""
    whole: dict[str, Any] = {}
    quantities: dict[str, str] = {**table["every"]}
    for change in targets.changes(table, target):
        quantities |= change.get("every", {})
    for part in [*_kinds(entry.get("kind"), table), entry, *targets.changes(entry, target)]:
        quantities |= part.get("quantities", {})
        whole |= {key: value for key, value in part.items() if key not in ("kind", "like", "on", "gpus")}
    quantities = {name: expression for name, expression in quantities.items() if expression}
    return files.validate_entry(KnownKernel, {**whole, "quantities": quantities}, f"The kernel {entry['name']}")


def _kinds(name: str | None, table: dict[str, Any]) -> list[dict[str, Any]]:
    if name is None:
        return []
    kind = table["kind"][name]
    return [*_kinds(kind.get("like"), table), kind]


def launches(target: str, facts: Mapping[str, float], *, functional: bool = False) -> list[KnownLaunch]:
    """The launches on a device with these facts, which include at least cu_per_gpu and wave_size."""
    given = {**facts, "cus": facts["cu_per_gpu"], "wave": facts["wave_size"]}
    return [_launch(kernel, given, functional) for kernel in kernels(target)]


def parse_plan(text: str) -> list[KnownLaunch]:
    """The launches of a plan that was saved as JSON."""
    return [KnownLaunch.model_validate(one) for one in json.loads(text)]


def _launch(kernel: KnownKernel, device: Mapping[str, float], functional: bool) -> KnownLaunch:
    inputs = {**device, "threads": float(kernel.threads), **kernel.given}
    expressions = {name: getattr(kernel, name) for name in _SIZES} | kernel.quantities
    if kernel.data:
        expressions |= {"step": "0", "keep": "0"}
    if functional:
        most = files.load(_FILE)["functional"]
        expressions |= {name: f"least({expressions[name]}, {limit})" for name, limit in most.items()}
    if kernel.result:
        expressions["result"] = kernel.result
    values = solve_expressions(expressions, inputs)
    sizes = {name: int(values[name] or 0) for name in _SIZES}
    numbers = {name: value for name in kernel.quantities if (value := values[name]) is not None}
    used = {name: float(sizes[name]) for name in ("groups", "rounds", "step")}
    used |= {name: inputs[name] for name in ("cus", "wave", "threads")}
    return KnownLaunch.model_validate(
        sizes
        | kernel.model_dump(include=set(_KernelSource.model_fields))
        | {"result": values.get("result"), "quantities": {**numbers, **used, **kernel.given}}
    )
