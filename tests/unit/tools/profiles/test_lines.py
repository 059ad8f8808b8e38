"""Samples without source lines are noticed at import, with the flag that would have given them some."""

from __future__ import annotations

from pathlib import Path

import duckdb

from rooflens.analysis.store.manifest import Manifest
from rooflens.tools.profiles.import_to_store import missing_line_info

ROWS = (
    "(VALUES ('a(int)', 'FADD', 7, 30), ('a(int)', 'FADD', NULL, 10), ('b(int)', 'FMUL', 3, 25), "
    "('b(int)', NULL, NULL, 15), ('c(int)', 'EXIT', NULL, 20)) t(kernel, instruction, source_line, count)"
)


def test_the_flag_is_told_once_for_all_kernels_and_not_where_a_page_lacks_the_lines(tmp_path: Path) -> None:
    con = duckdb.connect()
    manifest = Manifest(name="x", format="ncu", vendor="nvidia", command="./app", dispatches=3)
    assert missing_line_info(con, tmp_path, manifest) == []
    con.execute(f"COPY (FROM {ROWS}) TO '{tmp_path / 'samples.parquet'}'")
    (note,) = missing_line_info(con, tmp_path, manifest)
    assert note.text.startswith("30 % of the samples have no source line: c and 1 more kernels (")
    assert "-lineinfo" in note.text
    (note,) = missing_line_info(con, tmp_path, Manifest(name="x", format="ncu", vendor="nvidia"))
    assert "import the report" in note.text and "-lineinfo" not in note.text
