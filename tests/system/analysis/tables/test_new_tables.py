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
SQL = "SELECT middle_ns FROM gaps"


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with a column and a table more, beside a store with a timeline."""
    home = tmp_path_factory.mktemp("copy")
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


def run(product: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(product), "ROOFLENS_STORE": str(product / "store")}
    made = subprocess.run([sys.executable, *words], env=env, cwd=product, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_they_are_in_sql_as_json_and_csv(product: Path) -> None:
    answer = json.loads(run(product, "-m", "rooflens", "sql", SQL, "--json"))
    (gap,) = {row[0] for row in answer["table"]["rows"][:1]}
    assert answer["table"]["columns"] == ["middle_ns"] and gap > 0
    printed = run(product, "-m", "rooflens", "sql", "FROM longest_gaps", "--csv").splitlines()
    assert printed[0] == "workload,cause,longest_ns" and len(printed) > 1


def test_they_are_in_the_text_and_the_structured_content_of_an_answer(product: Path) -> None:
    text = run(product, "-m", "rooflens", "call", "compute_timeline", "--text")
    assert "middle_ms" in text and "longest_gaps" in text and "longest_ms" in text
    answer = json.loads(run(product, "-m", "rooflens", "call", "compute_timeline"))
    assert "middle_ms" in answer["gaps"]["columns"]
    assert answer["tables"]["longest_gaps"]["columns"] == ["cause", "longest_ms"]
    assert answer["tables"]["longest_gaps"]["units"] == [None, "ms"]


def test_they_are_data_frames(product: Path) -> None:
    program = (
        "import rooflens; w = rooflens.open()['latest']; "
        "print(list(w.timeline().df('gaps').columns), list(w.timeline().df('longest_gaps').columns))"
    )
    printed = run(product, "-c", program)
    assert "'middle_ms'" in printed and "['cause', 'longest_ms']" in printed


def test_they_are_in_the_reference_and_on_the_page(product: Path) -> None:
    reference = run(product, "-c", "from rooflens.analysis.tables import render; print(render())")
    assert "middle_ns BIGINT,  -- Between start and end [ns]" in reference
    assert "CREATE TABLE longest_gaps (  -- The longest gap of each cause." in reference
    run(product, "-m", "rooflens", "report", "latest", "-o", "page.html")
    page = (product / "page.html").read_text()
    assert '"longest_gaps"' in page and '"middle_ms"' in page
