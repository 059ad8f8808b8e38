"""The text pages of ncu (raw and details) and their units."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, cast

import tomli

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ...base.profile_files import check_text, head, is_gzip, open_regular
from ...base.untrusted_text import decimal, grouped_number, plain_text

_HEADER = re.compile(rb'"?ID"?,"?Process ID"?,|"?Process ID"?,"?Process Name"?,"?Host Name"?,')
_ROW = re.compile(rb'"?\d+"?,"?\d*"?,')
_UNITS = re.compile(rb'(?:(?:"")?,){2}')
_MISGROUPED = re.compile(rb'"[+-]?(?!\d{1,3}(?:,\d{3})*(?:\.\d*)?")[\d.]*,[\d.,]*"')
NOTHING = ("", "nan", "-nan", "inf", "-inf", "n/a", "N/A", "no data", "(!) nan", "(!) n/a", "(!)")
"""Cells without a value."""
_LOOKED_AT = 1 << 20


@dataclass
class NcuPage:
    """One table: headers, units (raw page only), rows in ``body``, and the number of lines that were skipped."""

    source: Path
    headers: list[str]
    body: Path
    units: list[str] = field(default_factory=list)
    rows: int = 0
    foreign: int = 0
    doubtful: bool = False
    """Whether a cell may be a number in another notation (1_000, 2.230,5), which DuckDB would misread."""

    @property
    def is_details(self) -> bool:
        """Whether it is a details page with one row per metric, rather than a raw page with one row per launch."""
        return "Metric Name" in self.headers

    @property
    def least_cells(self) -> int:
        """Minimum number of cells in a row: rows of a details page may omit the cells of rules."""
        needed = [self.headers.index(name) + 1 for name in (*_LAUNCH_COLUMNS, *_DETAIL_COLUMNS) if name in self.headers]
        return max(needed) if self.is_details else len(self.headers)

    def cells(self) -> Iterator[list[str]]:
        """Yield the parsed rows; BadInput if a row has too few or too many cells."""
        with self.body.open(encoding="utf-8", errors="replace", newline="") as text:
            try:
                for row in csv.reader(text):
                    if len(row) < self.least_cells or len(row) > len(self.headers):
                        where = f"launch {row[0][:20]}" if row else "an empty row"
                        raise damaged_page(
                            self.source, f"{where} has {len(row)} of {count_text(len(self.headers), 'column')}"
                        )
                    yield row
            except csv.Error as error:
                raise damaged_page(self.source, str(error)) from error


def has_page(path: Path) -> bool:
    """Return whether the text of ``path`` has a table of ncu near its start, possibly after the program's output."""
    return _HEADER.search(head(path, _LOOKED_AT)) is not None


def read_pages(source: Path, folder: Path, stem: str) -> list[NcuPage]:
    """Return the tables in ``source``, in file order, with their rows streamed to ``<stem>_<n>.csv`` in ``folder``.

    Raises BadInput for a file that ends within a row, and for a summary page, which has no launches.
    """
    underscored = bool(check_text(source))
    pages: list[NcuPage] = []
    out: BinaryIO | None = None
    quoted = False
    try:
        for line in _lines(source):
            odd = line.count(b'"') % 2 == 1
            if quoted:
                assert out
                out.write(line)
                quoted ^= odd
            elif out and _ROW.match(line):
                out.write(line if line.endswith(b"\n") else line + b"\n")
                pages[-1].rows += 1
                pages[-1].doubtful = pages[-1].doubtful or _MISGROUPED.search(line) is not None
                quoted = odd
                progress.report(f"read {count_text(pages[-1].rows, 'row')} of {source.name}")
            elif match := _HEADER.search(line):
                if out:
                    out.close()
                body = folder / f"{stem}_{len(pages)}.csv"
                pages.append(NcuPage(source, _parse_cells(source, line[match.start() :]), body))
                out = body.open("wb")
                _check_header(pages[-1])
                pages[-1].doubtful = underscored
            elif out and not pages[-1].rows and not pages[-1].units and _UNITS.match(line):
                pages[-1].units = _parse_cells(source, line)
            elif pages and line.strip():
                pages[-1].foreign += 1
    finally:
        if out:
            out.close()
    if quoted:
        raise damaged_page(source, "it ends within a row")
    if not pages:
        raise BadInput(f"{source.name} contains no page of ncu", "it has no header with ID and Process ID")
    return pages


def damaged_page(source: Path, why: str) -> BadInput:
    """Return the error for an incomplete page."""
    return BadInput(
        f"{source.name} is damaged",
        why,
        "Check that the run and the copy were complete. Write it again: ncu --import FILE.ncu-rep --csv --page raw",
    )


def _check_header(page: NcuPage) -> None:
    name, columns = page.source.name, page.headers
    if len(columns) > size_limits.MOST_COLUMNS:
        raise BadInput(
            f"{name} has {count_text(len(columns), 'column')}",
            f"a profile may have at most {size_limits.MOST_COLUMNS}",
        )
    if "Invocations" in columns:
        raise BadInput(
            f"{name} is a summary of ncu",
            "it states minimum, maximum and mean values over launches, not the launches",
            "Write the page without --print-summary: ncu --import FILE.ncu-rep --csv --page raw",
        )
    if twice := sorted(h for h, n in Counter(h.casefold() for h in columns).items() if n > 1):
        raise BadInput(f"{name} has duplicate columns", plain_text(", ".join(twice[:8])), "Remove one of each")
    if missing := [needed for needed in ("ID", "Kernel Name") if needed not in columns]:
        raise BadInput(f"{name} has no column {missing[0]}", "without it, rows cannot be assigned to launches")


def _parse_cells(source: Path, line: bytes) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line.decode("utf-8"))), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise damaged_page(source, f"its header could not be read: {error}") from error


def _lines(source: Path) -> Iterator[bytes]:
    with open_regular(source) as file:
        yield from cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_gzip(source) else file


_INSTANCES = re.compile(r"[(\[{]")
"""Start of the list of instance values that follows the total if --print-metric-instances was given."""
_NS_PER_S = 1e9


def number(cell: str) -> float | None:
    """Parse a cell such as ``2,230`` or ``12 (5; 7)``, in which instances follow the total; None for text."""
    return grouped_number(_INSTANCES.split(cell, maxsplit=1)[0])


def clean_numbers(page: NcuPage, numbers: set[int]) -> dict[int, tuple[int, str]]:
    """Rewrite the rows of a page with plain numbers in the columns ``numbers``; cells with text become empty.

    Returns the number of cells with text, and an example, for every column that has any.
    """
    bad: dict[int, tuple[int, str]] = {}
    body = page.body.with_suffix(".clean")
    with body.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for row in page.cells():
            for i in numbers:
                if (cell := row[i]) in NOTHING or decimal(cell) is not None:
                    continue
                value = number(cell)
                row[i] = "" if value is None else repr(value)
                if value is None:
                    count, example = bad.get(i, (0, cell))
                    bad[i] = (count + 1, example)
            out.writerow(row)
    page.body.unlink()
    page.body, page.doubtful = body, False
    return dict(sorted(bad.items()))


@cache
def scale(unit: str) -> float | None:
    """Return the factor from ``unit`` to base units: ns, byte, Hz, %, counts, and rates of these per second.

    None if the unit is unknown. ``scale("Kbyte/block")`` is 1000, ``scale("sector/ns")`` is 1e9. A prefix multiplies
    the value even in the denominator, as in ncu itself, which prints 2614 %/byte as 2.614 %/Kbyte.
    """
    above, *below = unit.strip().split("/")
    factor = _unit_factor(above)
    if factor is None:
        return None
    if above in _table()["seconds"]:
        factor *= _NS_PER_S
    for part in below:
        part_factor = _unit_factor(part) if part else None
        if part_factor is None:
            return None
        factor = factor / part_factor if part in _table()["seconds"] else factor * part_factor
    return factor


def _unit_factor(part: str) -> float | None:
    """Return the factor of one part of a unit, with times in s; an empty part is a plain number."""
    table = _table()
    if part == "" or part in table["counted"]["names"]:
        return 1.0
    if part in table["seconds"]:
        return float(table["seconds"][part])
    prefix = table["prefixes"].get(part[0])
    return float(prefix) if prefix is not None and part[1:] in table["counted"]["names"] else None


@cache
def _table() -> dict[str, Any]:
    return tomli.loads(Path(__file__).with_name("units.toml").read_text())


_LAUNCH_COLUMNS = (
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
_DETAIL_COLUMNS = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")


def as_raw(page: NcuPage) -> tuple[NcuPage, list[Note]]:
    """Convert a details page to a raw page with one column per metric; return it with notes about the conversion.

    Labels become metrics according to labels.toml; metrics requested by name (ncu --metrics) already have their names.
    Rows of rules are skipped. Raises BadInput if no metric is known.
    """
    if missing := [name for name in _DETAIL_COLUMNS if name not in page.headers]:
        raise BadInput(f"{page.source.name} has no column {missing[0]}", "every details page of ncu has it")
    at = {header: i for i, header in enumerate(page.headers)}
    section, label, unit = (at[name] for name in _DETAIL_COLUMNS[:3])
    columns: dict[str, str] = {}  # metric -> its unit if it is unknown and cannot be converted to base units
    unknown_labels: set[str] = set()
    has_labels = False
    for row in page.cells():
        if not row[label]:
            continue
        if metric := _metric(row[section], row[label]):
            has_labels = has_labels or metric != row[label]
            known = scale(row[unit]) is not None
            columns[metric] = columns.get(metric, "") if known else row[unit]
        else:
            unknown_labels.add(row[label])
    if not columns:
        raise BadInput(
            f"{page.source.name} contains no metric that rooflens knows",
            f"{count_text(len(unknown_labels), 'label')} on a details page, none of them known",
            "Export the raw page, which has the metrics' own names: ncu --import FILE.ncu-rep --csv --page raw",
        )
    own = [name for name in _LAUNCH_COLUMNS if name in at]
    raw = NcuPage(page.source, [*own, *columns], page.body.with_suffix(".wide"), [*[""] * len(own), *columns.values()])
    with raw.body.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for launch in _launches(page, own, at):
            values: dict[str, str] = {}
            for row in launch:
                if row[label] and (metric := _metric(row[section], row[label])):
                    values.setdefault(metric, _to_base_units(row[at["Metric Value"]], row[unit]))
            out.writerow([*(launch[0][at[name]] for name in own), *(values.get(metric, "") for metric in columns)])
            raw.rows += 1
            progress.report(f"read {count_text(raw.rows, 'launch')} of {page.source.name}")
    raw.foreign = page.foreign
    text = f"{page.source.name} is a details page with rounded values; the report and its raw page are more precise."
    notes = [Note("rounded", text)]
    if has_labels:
        text = "Labels were interpreted as Nsight Compute 2025.3 defines them; a few differ by version."
        notes.append(Note("labels", text))
    if unknown_labels:
        listed = ", ".join(plain_text(name, 40) for name in sorted(unknown_labels)[:6])
        text = f"skipped {count_text(len(unknown_labels), 'label')} without a known metric: {listed}."
        notes.append(Note("unknown_labels", text))
    return raw, notes


def _launches(page: NcuPage, own: list[str], at: dict[str, int]) -> Iterator[list[list[str]]]:
    """Yield the rows of each launch, which are consecutive."""
    for _, rows in groupby(page.cells(), key=lambda row: [row[at[name]] for name in own]):
        yield list(rows)


def _metric(section: str, label: str) -> str | None:
    if "__" in label:
        return label
    return _labels().get(section, {}).get(label)


def _to_base_units(value: str, unit: str) -> str:
    """Convert a value to base units; text and values of unknown units stay unchanged."""
    amount, factor = number(value), scale(unit)
    return value if amount is None or factor is None else repr(amount * factor)


@cache
def _labels() -> dict[str, dict[str, str]]:
    return tomli.loads(Path(__file__).with_name("labels.toml").read_text())
