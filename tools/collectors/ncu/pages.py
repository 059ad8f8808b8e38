"""CSV output of ncu cut into pages: the table without what ncu or the program printed around and within it."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from ....analysis.problems import BadInput
from ..files import check_text, head, is_gzip, open_regular

_HEADER = re.compile(rb'"?ID"?,"?Process ID"?,|"?Process ID"?,"?Process Name"?,"?Host Name"?,')
_ROW = re.compile(rb'"?\d+"?,"?\d*"?,')
_UNITS = re.compile(rb'(?:(?:"")?,){2}')
_LOOKED_AT = 1 << 20
_COLUMN_LIMIT = 20_000


@dataclass
class Page:
    """One table: headers, the units below them (raw page only), rows in ``body``, and how many lines fell out."""

    source: Path
    headers: list[str]
    body: Path
    units: list[str] = field(default_factory=list)
    rows: int = 0
    foreign: int = 0

    @property
    def long(self) -> bool:
        """Whether it is a details page, with a row per metric; else it is a raw page, with a row per launch."""
        return "Metric Name" in self.headers

    @property
    def least(self) -> int:
        """Cells that a row has at least: on a details page those of a rule are left away."""
        return self.headers.index("Metric Value") + 1 if "Metric Value" in self.headers else len(self.headers)

    def cells(self) -> Iterator[list[str]]:
        """The rows, parsed one by one; BadInput where one has not the cells that the header says."""
        with self.body.open(encoding="utf-8", errors="replace", newline="") as text:
            try:
                for row in csv.reader(text):
                    if len(row) < self.least or len(row) > len(self.headers):
                        where = f"launch {row[0][:20]}" if row else "an empty row"
                        raise damaged(self.source, f"{where} has {len(row)} of {len(self.headers)} columns")
                    yield row
            except csv.Error as error:
                raise damaged(self.source, str(error)) from error


def has_page(path: Path) -> bool:
    """Whether the text of ``path`` holds a table of ncu near its start; the program's own output may come before."""
    return _HEADER.search(head(path, _LOOKED_AT)) is not None


def read_pages(source: Path, folder: Path, stem: str) -> list[Page]:
    """The tables in ``source``, in file order, with their rows as ``<stem>_<n>.csv`` in ``folder``; streams.

    Raises BadInput for a file that ends within a row, and for a summary page, which has no launches.
    """
    check_text(source)
    pages: list[Page] = []
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
                quoted = odd
            elif match := _HEADER.search(line):
                if out:
                    out.close()
                body = folder / f"{stem}_{len(pages)}.csv"
                pages.append(Page(source, _parsed(source, line[match.start() :]), body))
                out = body.open("wb")
                _check_header(pages[-1])
            elif out and not pages[-1].rows and not pages[-1].units and _UNITS.match(line):
                pages[-1].units = _parsed(source, line)
            elif pages and line.strip():
                pages[-1].foreign += 1
    finally:
        if out:
            out.close()
    if quoted:
        raise damaged(source, "it ends within a row")
    if not pages:
        raise BadInput(f"{source.name} holds no page of ncu", "it has no header with ID and Process ID")
    return pages


def damaged(source: Path, why: str) -> BadInput:
    """The refusal of a page that is not whole."""
    return BadInput(
        f"{source.name} is damaged",
        why,
        "Was the run complete, and the file copied whole? Write it again: ncu --import FILE.ncu-rep --csv --page raw",
    )


def _check_header(page: Page) -> None:
    name, columns = page.source.name, page.headers
    if len(columns) > _COLUMN_LIMIT:
        raise BadInput(f"{name} has {len(columns)} columns", f"more than the {_COLUMN_LIMIT} a profile may have")
    if "Invocations" in columns:
        raise BadInput(
            f"{name} is a summary of ncu",
            "it states least, greatest and mean values over launches, not the launches",
            "Write the page without --print-summary: ncu --import FILE.ncu-rep --csv --page raw",
        )
    if missing := [needed for needed in ("ID", "Kernel Name") if needed not in columns]:
        raise BadInput(f"{name} has no column {missing[0]}", "its rows cannot be told apart by launch without it")


def _parsed(source: Path, line: bytes) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(line.decode("utf-8"))), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise damaged(source, f"its header cannot be read: {error}") from error


def _lines(source: Path) -> Iterator[bytes]:
    with open_regular(source) as file:
        yield from cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_gzip(source) else file
