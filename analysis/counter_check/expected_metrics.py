"""What metrics must say of launches whose work is known."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pydantic

from ..catalogue import files, metrics, targets
from ..catalogue.files import CatalogueModel
from ..catalogue.formula import references

_FILE = Path(__file__).with_name("meanings.toml")


class Meaning(CatalogueModel):
    """Expressions over quantities, of which the first counts whose quantities a kernel states; see meanings.toml."""

    expressions: tuple[str, ...] = pydantic.Field(alias="is")
    within: float
    """Percent of the expected value; of a percentage, points."""
    needs: tuple[str, ...] = ()
    """Quantities that a kernel must state besides."""
    without: tuple[str, ...] = ()
    """Quantities that must be none, where a kernel states them."""
    only: tuple[str, ...] = ()
    """The kernels it is held against, where it does not hold for others."""

    def names(self, expression: str) -> frozenset[str]:
        """What a kernel must state for an expression."""
        return references([expression])[expression] | frozenset(self.needs)


@cache
def meanings(target: str) -> dict[str, Meaning]:
    """Metric -> what it means, for the metrics of a target that have a meaning here, also by that which they repeat."""
    table = files.load(_FILE)
    stated: dict[str, Any] = dict(table["meaning"])
    for change in _changes(table, target):
        stated |= change.get("meaning", {})
    default = table["within"]["default"]
    known = {name: _meaning(name, entry, default) for name, entry in stated.items()}
    of_metrics = {}
    for metric in metrics.metrics(target):
        if meaning := known.get(metric.name) or known.get(metric.of or ""):
            of_metrics[metric.name] = meaning
    return of_metrics


def _changes(table: dict[str, Any], target: str) -> list[dict[str, Any]]:
    """What holds on a target: later ones of a family take over what stands for those before them."""
    family = targets.gpu(target).family
    older = [name for name in table["on"] if name in targets.targets() and targets.gpu(name).family == family]
    named = [targets.gpu(target).vendor, *(name for name in older if name <= target)]
    return [table["on"][name] for name in dict.fromkeys([*named, target]) if name in table["on"]]


def _meaning(name: str, entry: Any, default: float) -> Meaning:
    whole = dict(entry) if isinstance(entry, dict) else {"is": entry}
    if isinstance(whole["is"], str):
        whole["is"] = [whole["is"]]
    return files.validate_entry(Meaning, {"within": default, **whole}, f"The meaning of {name}")
