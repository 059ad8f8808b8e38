"""What a profile may be at most: a small file must neither keep the machine busy nor fill its memory."""

from __future__ import annotations

MOST_COLUMNS = 8_000
"""Counters or metrics of a profile. All metrics of one GPU are about 3,000; DuckDB's time grows with their square."""
MOST_PROCESSES = 500
"""Processes with launches in one file; each costs some queries."""
MOST_RUNS = 50_000
"""Processes that a JSON file may describe, most of them without launches."""
EMPTY_CELLS = 5_000_000
"""Launches times counters of a pass that may be empty anyhow; above, one value must stand for SPARSE of them."""
SPARSE = 100
GZIP_FREE, GZIP_RATIO, GZIP_MOST = 32 << 20, 60, 8 << 30
"""Bytes that any gzip file may unpack to, how many times its size a larger one, and how many at the most."""
LINE = 4 << 20
"""Bytes of a line of text."""
STRANGE_NUMBERS = 50
"""Different cells such as 1_000 that are named and left out before a file is refused."""
NAMED_COLUMNS = 8
"""Columns with cells that are no numbers which are named one by one."""
TEXT = 20_000
"""Characters of a text taken from a database; kernel names are cut well below."""
DATABASE_VALUE = 8 << 20
"""Bytes of one value or row of a database, also of what its views compute."""
DATABASE_PATIENCE_S, DATABASE_BYTES_PER_S = 4.0, 2 << 20
"""Seconds of CPU time that the queries of a database may take in all, and more of them for a larger one."""
REPORT_PATIENCE_S, REPORT_BYTES_PER_S, REPORT_MOST_S = 5.0, 1 << 20, 300.0
"""Seconds of CPU time for a report of ncu, more of them for a larger one, and the most."""
REPORT_MEMORY = 6_000_000_000
"""Bytes of memory for the library that reads a report of ncu."""
REPORT_PAGE, REPORT_PAGE_RATIO = 32 << 20, 200
"""Bytes of the page that a report of ncu may become, and how many times its size."""


def patience_s(size: int, start: float, bytes_per_s: int) -> float:
    """Seconds that reading a file of ``size`` bytes may take."""
    return start + size / bytes_per_s
