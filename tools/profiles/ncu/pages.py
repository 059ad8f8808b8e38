"""The raw pages of ncu and their units."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress, size_limits
from ...base.profile_files import check_text, head, is_gzip, open_regular
from ...base.untrusted_text import decimal, grouped_number, plain_text
from ..merging.wording import refusal
from ..parsing.module_data import module_data

_HEADER = re.compile(rb'"?ID"?,"?Process ID"?,|"?Process ID"?,"?Process Name"?,"?Host Name"?,')
_ROW = re.compile(rb'"?\d+"?,"?\d*"?,')
_UNITS = re.compile(rb'(?:(?:"")?,){2}')
_MISGROUPED = re.compile(rb'"[+-]?(?!\d{1,3}(?:,\d{3})*(?:\.\d*)?")[\d.]*,[\d.,]*"')
_DECIMAL_COMMA = re.compile(rb'"[+-]?(?:\d+,(?!\d{3}")\d+|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})"')
"""A number that can only have a decimal comma or points between its thousands: 65,77 or 27.595.520."""
_DECIMAL_POINT = re.compile(rb'"[+-]?\d+\.(?:\d{2}|\d{4,})"')
"""A number that can only have a decimal point. One digit after it may be a version, three may be thousands."""
_AMD_ROW = re.compile(
    rb',"?(?:SQC?|TC[ACP]|T[AD]|GRBM|SPI|CP[CF]|GL[12]C|GCEA)_\w+"?,"?[^",\n]*"?,"?[\d.,eE+-]+"?\r?$', re.MULTILINE
)
"""The end of a row of a details page whose metric is a counter of AMD GPUs: name, unit and value."""
NOTHING = ("", "nan", "-nan", "inf", "-inf", "n/a", "N/A", "no data", "(!) nan", "(!) n/a", "(!)")
"""Cells without a value."""
_LOOKED_AT = 1 << 20
_WRITE_PAGE = "ncu --import FILE.ncu-rep --csv --page raw"


@dataclass
class NcuPage:
    """One table: headers, units, rows in ``body``, and the number of lines that were skipped."""

    source: Path
    headers: list[str]
    body: Path
    units: list[str] = field(default_factory=list)
    rows: int = 0
    foreign: int = 0
    doubtful: bool = False
    """Whether a cell may be a number in another notation (1_000, 2.230,5), which DuckDB would misread."""
    decimal_comma: bool | None = None
    """Whether its numbers have a decimal comma, as ncu writes them in some languages; None while no cell shows it."""

    def cells(self) -> Iterator[list[str]]:
        """Yield the parsed rows; BadInput if a row has too few or too many cells."""
        with self.body.open(encoding="utf-8", errors="replace", newline="") as text:
            try:
                for row in csv.reader(text):
                    if len(row) != len(self.headers):
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


def is_details_page(path: Path) -> bool:
    """Return whether the page at ``path`` has one row per metric: its values are rounded, so it is not read."""
    start = head(path, _LOOKED_AT)
    match = _HEADER.search(start)
    return match is not None and b"Metric Name" in start[match.start() :].partition(b"\n")[0]


def read_pages(source: Path, folder: Path, stem: str) -> list[NcuPage]:
    """Return the tables in ``source``, in file order, with their rows streamed to ``<stem>_<n>.csv`` in ``folder``.

    Raises BadInput for a file that ends within a row, and for pages without launches and exact values.
    """
    underscored = bool(check_text(source))
    pages: list[NcuPage] = []
    out = None
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
                if pages[-1].decimal_comma is not False and _DECIMAL_POINT.search(line):
                    pages[-1].decimal_comma = False
                elif pages[-1].decimal_comma is None and _DECIMAL_COMMA.search(line):
                    pages[-1].decimal_comma = True
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
        raise refusal("no_page", file=source)
    for page in pages:
        if page.decimal_comma:
            raise refusal("decimal_comma", file=source)
    return pages


def damaged_page(source: Path, why: str) -> BadInput:
    """Return the error for an incomplete page."""
    return refusal("damaged_page", file=source, why=why)


def _check_header(page: NcuPage) -> None:
    name, columns = page.source.name, page.headers
    if len(columns) > size_limits.MOST_COLUMNS:
        raise refusal("too_many_columns", name=name, count=len(columns), most=size_limits.MOST_COLUMNS)
    if "Invocations" in columns:
        raise refusal("summary_page", name=name)
    if "Metric Name" in columns:
        if _AMD_ROW.search(head(page.source, _LOOKED_AT)):
            raise refusal("amd_page", name=name)
        raise refusal("details_page", name=name)
    if twice := sorted(h for h, n in Counter(h.casefold() for h in columns).items() if n > 1):
        raise refusal("duplicate_columns", name=name, columns=plain_text(", ".join(twice[:8])))
    if missing := [needed for needed in ("ID", "Kernel Name") if needed not in columns]:
        raise refusal("no_column", name=name, column=missing[0])


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
    seconds, (above, *below) = module_data(__file__, "units.toml")["seconds"], unit.strip().split("/")
    factor = _unit_factor(above)
    if factor is None:
        return None
    if above in seconds:
        factor *= _NS_PER_S
    for part in below:
        part_factor = _unit_factor(part) if part else None
        if part_factor is None:
            return None
        factor = factor / part_factor if part in seconds else factor * part_factor
    return factor


def _unit_factor(part: str) -> float | None:
    """Return the factor of one part of a unit, with times in s; an empty part is a plain number."""
    table = module_data(__file__, "units.toml")
    if part == "" or part in table["counted"]["names"]:
        return 1.0
    if part in table["seconds"]:
        return float(table["seconds"][part])
    prefix = table["prefixes"].get(part[0])
    return float(prefix) if prefix is not None and part[1:] in table["counted"]["names"] else None
