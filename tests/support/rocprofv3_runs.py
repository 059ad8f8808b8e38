"""Runs to write into a test's folder, and the schema of a real database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rooflens.tests.made.rocprofv3 import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    """Writes runs below the test's folder."""
    return Writer(tmp_path)


@pytest.fixture(scope="session")
def amd_schema(shared: Path) -> list[str]:
    """The statements that made a real database of rocprofv3 1.3.2, its session replaced by marks."""
    (file,) = (shared / "rocprofv3" / "kernel_trace").glob("*.db")
    con = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    (guid,) = con.execute("SELECT value FROM rocpd_metadata WHERE tag = 'guid'").fetchone()
    found = con.execute(
        "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' ORDER BY rowid"
    ).fetchall()
    con.close()
    return [sql.replace(guid.replace("-", "_"), "{suffix}").replace(guid, "{guid}") for (sql,) in found]
