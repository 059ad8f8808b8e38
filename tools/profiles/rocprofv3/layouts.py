"""What the files of rocprofv3 contain, and what CSV, JSON and databases (rocpd) call it (layouts.toml)."""

from __future__ import annotations

from ..parsing.module_data import module_data

_ALL = module_data(__file__)
STAGED, JSON, CSV = (_ALL[name] for name in ("staged", "json", "csv"))
FILES: dict[str, str] = _ALL["files"]
HEADERS: dict[str, list[str]] = _ALL["headers"]
"""Kind of CSV file -> columns by which it is recognised under any name."""
EVENTS: dict[str, dict[str, str]] = _ALL["events"]
"""Kind of activity -> column of events -> SQL."""
ROCPD: dict[str, dict[str, str]] = _ALL["rocpd"]["columns"]
"""Rows of a database, called as their table or as in TABLES -> column of their copy -> SQL of SQLite."""
TABLES: dict[str, str] = _ALL["rocpd"]["tables"]
IDS: dict[str, str] = _ALL["rocpd"]["ids"]
MISSING: dict[str, str] = _ALL["rocpd"]["missing"]
SELECTS: dict[str, str] = _ALL["rocpd"]["selects"]
OPTIONAL: dict[str, list[str]] = _ALL["rocpd"]["optional"]
"""Table of a database -> columns that it may lack."""
ROCPD_LISTS: dict[str, list[str]] = _ALL["rocpd"]["lists"]
AGENT: dict[str, str] = _ALL["rocpd"]["agent"]
"""Field of an agent -> SQL of SQLite."""
LIBRARIES: dict[str, str] = _ALL["rocpd"]["libraries"]
SAMPLES: dict[str, dict[str, str]] = _ALL["samples"]
"""Kind of source of program counter samples -> column -> SQL."""
HOTSPOTS: dict[str, dict[str, str]] = _ALL["hotspots"]
ATT: dict[str, list[str]] = _ALL["att"]


def layout_sql(name: str, **words: object) -> str:
    """Return the SQL of a further step, with ``words`` in place of what it names in braces."""
    return str(_ALL["sql"][name].format(**words))
