"""Columns of SQL in answers: times in ms, sizes in MB, digits as declared, and names that say the unit."""

from __future__ import annotations

import pytest

from rooflens.analysis.tables import schema
from rooflens.analysis.tables.declaration import Column, DerivedTable
from rooflens.tools.answers import tables
from rooflens.tools.answers.tables import table_from

SHOWN = {"full": ["ranks"], "filled": ["lds_mb"], "filled_in_summary": ["length"]}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {
        "wait_ns": Column("BIGINT", "A time", "ns"),
        "length": Column("BIGINT", "A time whose name has no unit", "ns", 3),
        "lds_bytes": Column("BIGINT", "A size", "bytes", decimals=1),
        "share_pct": Column("DOUBLE", "A share", "%", 2),
        "secret": Column("VARCHAR", "For SQL only", answer=False),
        "group_size": Column("INTEGER", "A count", answer="ranks"),
    }
    monkeypatch.setitem(schema(), "made", DerivedTable("made", "A table.", columns))
    monkeypatch.setitem(tables._declarations()["shown"], "made", SHOWN)
    tables.answer_columns.cache_clear()


@pytest.mark.usefixtures("made")
def test_units_names_and_digits_follow_from_the_declaration() -> None:
    row = {"wait_ns": 1_234_567, "length": 1_234_567, "lds_bytes": 65_536, "share_pct": 12.345, "group_size": 8}
    shown = table_from("made", [row | {"secret": "x"}])
    assert shown.columns == ["wait_ms", "length", "lds_mb", "share_pct", "ranks"]
    assert shown.units == ["ms", "ms", "MB", "%", None]
    assert shown.rows == [[1.234567, 1.23, 0.1, 12.0, 8]]


@pytest.mark.usefixtures("made")
def test_a_missing_value_stays_missing_and_a_summary_lacks_full_columns() -> None:
    rows = [{"wait_ns": None, "share_pct": 1.0, "group_size": 8}]
    full, short = (table_from("made", rows, full=full) for full in (True, False))
    assert full.columns == ["wait_ms", "length", "share_pct", "ranks"] and full.rows == [[None, None, 1.0, 8]]
    assert short.columns == ["wait_ms", "share_pct"] and short.rows == [[None, 1.0]]
