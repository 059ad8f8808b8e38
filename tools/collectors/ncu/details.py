"""The details page of ncu, a row per launch and metric, turned into a raw page, a row per launch."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from ....analysis.problems import BadInput
from ..names import plain_text
from .pages import Page
from .units import number, scale

_OWN = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)
_NEEDED = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")


def as_raw(page: Page) -> tuple[Page, list[str]]:
    """The same launches with a column per metric, and what is to be said: which labels stand for no known metric.

    Labels become metrics by labels.toml; what was asked for by name (ncu --metrics) has its name already.
    Rows of rules are left out. Raises BadInput where no metric is known.
    """
    if missing := [name for name in _NEEDED if name not in page.headers]:
        raise BadInput(f"{page.source.name} has no column {missing[0]}", "a details page of ncu has one")
    at = {header: i for i, header in enumerate(page.headers)}
    section, label, unit = (at[name] for name in _NEEDED[:3])
    columns: dict[str, str] = {}  # metric -> its unit, where that is not known and so cannot be brought to base
    strange: set[str] = set()
    labelled = False
    for row in page.cells():
        if not row[label]:
            continue
        if metric := _metric(row[section], row[label]):
            labelled = labelled or metric != row[label]
            known = scale(row[unit]) is not None
            columns[metric] = columns.get(metric, "") if known else row[unit]
        else:
            strange.add(row[label])
    if not columns:
        raise BadInput(
            f"{page.source.name} names no metric that rooflens knows",
            f"{len(strange)} labels of a details page, none of them known",
            "Export the raw page, which has the metrics' own names: ncu --import FILE.ncu-rep --csv --page raw",
        )
    own = [name for name in _OWN if name in at]
    raw = Page(page.source, [*own, *columns], page.body.with_suffix(".wide"), [*[""] * len(own), *columns.values()])
    with raw.body.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for launch in _launches(page, own, at):
            found: dict[str, str] = {}
            for row in launch:
                if row[label] and (metric := _metric(row[section], row[label])):
                    found.setdefault(metric, _based(row[at["Metric Value"]], row[unit]))
            out.writerow([*(launch[0][at[name]] for name in own), *(found.get(metric, "") for metric in columns)])
            raw.rows += 1
    raw.foreign = page.foreign
    notes = [f"{page.source.name} is a details page, whose values are rounded; the report and its raw page state more."]
    if labelled:
        notes.append("Labels of the page were read as Nsight Compute 2025.3 defines them; a few differ by version.")
    if strange:
        listed = ", ".join(plain_text(name, 40) for name in sorted(strange)[:6])
        notes.append(f"{len(strange)} labels that stand for no known metric were left out: {listed}.")
    return raw, notes


def _launches(page: Page, own: list[str], at: dict[str, int]) -> Iterator[list[list[str]]]:
    """The rows of one launch after the other; they stand together."""
    for _, rows in groupby(page.cells(), key=lambda row: [row[at[name]] for name in own]):
        yield list(rows)


def _metric(section: str, label: str) -> str | None:
    if "__" in label:
        return label
    return _labels().get(section, {}).get(label)


def _based(value: str, unit: str) -> str:
    """A value in base units; text and values of unknown units stay as they are."""
    found, factor = number(value), scale(unit)
    return value if found is None or factor is None else repr(found * factor)


@cache
def _labels() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("labels.toml").read_text())
