"""Size limits of a profile, so that a small file can neither occupy the machine for long nor exhaust its memory."""

from __future__ import annotations

MOST_COLUMNS = 8_000
"""Counters or metrics of a profile. One GPU has about 3,000 metrics; DuckDB's time grows with their square."""
MOST_PROCESSES = 500
"""Processes with launches in one file; each takes several queries."""
MOST_RUNS = 50_000
"""Processes that a JSON file may describe; most of them have no launches."""
EMPTY_CELLS = 5_000_000
"""Cells (launches times counters) of a pass that may be empty. Beyond it, at least one in SPARSE must have a value."""
SPARSE = 100
GZIP_FREE, GZIP_RATIO, GZIP_MOST = 32 << 20, 60, 8 << 30
"""Unpacked bytes that are always allowed for a gzip file, the allowed ratio to its size, and the absolute maximum."""
GZIP_MEMBERS, GZIP_MEMBER_BYTES = 1_000, 1 << 10
"""Members of a gzip file beyond which they must contain this many unpacked bytes on average; writers use 64 KiB."""
LINE = 4 << 20
"""Bytes of a line of text."""
STRANGE_NUMBERS = 50
"""Different cells such as 1_000 that are named and skipped before the whole file is rejected."""
NAMED_COLUMNS = 8
"""Columns with non-numeric cells that are named individually."""
TEXT = 20_000
"""Characters of a text read from a database; kernel names are cut to far less."""
DATABASE_VALUE = 8 << 20
"""Bytes of one value or row of a database, including values that its views compute."""
DATABASE_PATIENCE_S, DATABASE_BYTES_PER_S = 4.0, 2 << 20
"""CPU seconds that all queries of a database may take, and the size in bytes that adds a further second."""
REPORT_PATIENCE_S, REPORT_BYTES_PER_S, REPORT_MOST_S = 5.0, 1 << 20, 300.0
"""CPU seconds for reading a report of ncu, the size in bytes that adds a further second, and the maximum."""
REPORT_MEMORY = 6_000_000_000
"""Bytes of memory for the library that reads a report of ncu."""
REPORT_PAGE, REPORT_PAGE_RATIO = 32 << 20, 200
"""Bytes of the text page that a report of ncu may expand to, and the allowed ratio to its size."""


def patience_s(size: int, start: float, bytes_per_s: int) -> float:
    """Return the seconds that reading a file of ``size`` bytes may take."""
    return start + size / bytes_per_s
