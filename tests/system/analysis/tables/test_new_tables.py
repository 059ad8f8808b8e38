"""A column and a table that are added in one file each are in SQL, text, JSON, CSV, DataFrame, reference and page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.timelines import Made, publish

PARTS = (
    "analysis", "api", "prompts", "server", "skills", "tools", "docs", "__init__.py", "__main__.py", "pyproject.toml",
)  # fmt: skip
TABLE = '''"""The table longest_gaps: how long the longest gap of each cause is."""

from __future__ import annotations

from rooflens.analysis.workload import Workload
from rooflens.analysis.tables.declaration import Column, DerivedTable, Row, has_events
from rooflens.analysis.tables.derived import table_rows


def rows(workload: Workload) -> list[Row]:
    """Return a row for each cause, the longest first."""
    longest: dict[str, int] = {}
    for gap in table_rows(workload, "gaps"):
        longest[gap["cause"]] = max(longest.get(gap["cause"], 0), gap["ns"])
    return [{"cause": cause, "longest_ns": ns} for cause, ns in sorted(longest.items(), key=lambda one: -one[1])]


TABLE = DerivedTable(
    "longest_gaps",
    "The longest gap of each cause.",
    {"cause": Column("VARCHAR", "As in gaps"), "longest_ns": Column("BIGINT", "Its longest gap", "ns")},
    rows=rows,
    exists=has_events,
    tools=("compute_timeline",),
)
'''


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A copy of the product with a column and a table more, beside a store with a timeline."""
    home = tmp_path
    (home / "rooflens").mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, home / "rooflens" / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, home / "rooflens" / part)
    tables = home / "rooflens" / "analysis" / "tables"
    gaps = (tables / "gaps.py").read_text()
    column = '        "middle_ns": Column("BIGINT", "Between start and end", "ns"),\n        "cause": Column('
    changed = gaps.replace('        "cause": Column(', column, 1)
    changed = changed.replace(
        '"end_ns": gap.end,\n', '"end_ns": gap.end,\n            "middle_ns": (gap.start + gap.end) // 2,\n', 1
    )
    assert changed.count("middle_ns") == 2
    (tables / "gaps.py").write_text(changed)
    (tables / "longest_gaps.py").write_text(TABLE)
    made = Made()
    for start in range(0, 10_000_000, 1_000_000):
        made.launch("gemm", (start, start + 5_000), (start + 10_000, start + 600_000))
    publish(Store(home / "store"), made)
    return home


EVERY_OUTPUT = """
import contextlib, io, json, sys
import rooflens
from rooflens.analysis.tables import render
from rooflens.server import cli

def said(*words):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main(list(words)) == 0, words
    return out.getvalue()

timeline = rooflens.open()["latest"].timeline()
said("report", "latest", "-o", "page.html")
json.dump({
    "sql": json.loads(said("sql", "SELECT middle_ns FROM gaps", "--json")),
    "csv": said("sql", "FROM longest_gaps", "--csv").splitlines(),
    "text": said("call", "compute_timeline", "--text"),
    "answer": json.loads(said("call", "compute_timeline")),
    "frames": [list(timeline.df(name).columns) for name in ("gaps", "longest_gaps")],
    "reference": render(),
}, sys.stdout)
"""
"""A program that asks for the tables in every way that there is."""


def test_a_new_column_and_a_new_table_are_in_every_output(product: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(product), "ROOFLENS_STORE": str(product / "store")}
    done = subprocess.run([sys.executable, "-c", EVERY_OUTPUT], env=env, cwd=product, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sql"]["table"]["columns"] == ["middle_ns"] and found["sql"]["table"]["rows"][0][0] > 0
    assert found["csv"][0] == "workload,cause,longest_ns" and len(found["csv"]) > 1
    assert "middle_ms" in found["text"] and "longest_gaps" in found["text"] and "longest_ms" in found["text"]
    assert "middle_ms" in found["answer"]["gaps"]["columns"]
    assert found["answer"]["tables"]["longest_gaps"]["columns"] == ["cause", "longest_ms"]
    assert found["answer"]["tables"]["longest_gaps"]["units"] == [None, "ms"]
    assert "middle_ms" in found["frames"][0] and found["frames"][1] == ["cause", "longest_ms"]
    assert "middle_ns BIGINT,  -- Between start and end [ns]" in found["reference"]
    assert "CREATE TABLE longest_gaps (  -- The longest gap of each cause." in found["reference"]
    page = (product / "page.html").read_text()
    assert '"longest_gaps"' in page and '"middle_ms"' in page
