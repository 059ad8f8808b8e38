"""Samples and instructions of a reader become tables that are named and numbered as the launches are."""

from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.store.manifest import Manifest
from rooflens.tools.base.profile_files import WORK
from rooflens.tools.profiles.import_to_store import missing_line_info
from rooflens.tools.profiles.merging.contract import parquet, row_of
from rooflens.tools.profiles.samples.sample_tables import INSTRUCTION, SAMPLE, HotspotQueries, write_hotspots


@pytest.fixture
def con():
    with duckdb.connect() as con:
        yield con


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / WORK).mkdir()
    return tmp_path


def rows(columns: dict[str, str], *known: dict[str, str]) -> str:
    return " UNION ALL ".join(f"SELECT {row_of(columns, one)}" for one in known)


def read(con: duckdb.DuckDBPyConnection, out: Path, table: str, columns: str) -> list[tuple]:
    return con.execute(f"SELECT {columns} FROM {parquet([out / f'{table}.parquet'])}").fetchall()


def sample(offset: int | None, count: int, raw: str = "'long_scoreboard'", **more: str) -> dict[str, str]:
    place = {"kernel": "'k'", "offset": str(offset) if offset is not None else "NULL", "count": str(count)}
    return place | {"stall_raw": raw, "issued": "false"} | more


def test_an_instruction_lends_its_text_to_its_samples(con, out):
    code = {"kernel": "'k'", "offset": "16", "instruction": "'LDG R1'", "source_line": "4", "source_file": "'a.cu'"}
    given = rows(INSTRUCTION, *(code | {"executed": str(4 + n), "dispatch_id": str(n)} for n in (1, 2)))
    found = rows(SAMPLE, sample(16, 3), sample(32, 1, instruction="'EXIT'"))
    write_hotspots(con, out, HotspotQueries("ncu", found, given))
    assert read(con, out, "samples", "instruction, source_line") == [("LDG R1", 4), ("EXIT", None)]
    assert read(con, out, "instructions", "instruction, launches, executed") == [("LDG R1", 2, 11), ("EXIT", 0, None)]


def test_a_count_that_cannot_be_is_left_out_and_said(con, out):
    odd = [sample(0, 1) | {"count": count} for count in ("0", "-1", "NULL", str(1 << 60))]
    samples, warnings, _ = write_hotspots(con, out, HotspotQueries("ncu", rows(SAMPLE, sample(0, 1), *odd)))
    assert samples == 1
    assert [note.code for note in warnings] == ["samples_left_out"] and "4" in warnings[0].text


def test_hidden_characters_are_not_stored_and_two_spellings_of_a_path_are_one_file(con, out):
    code = {"instruction": "'LDG' || chr(27) || '[31m' || chr(8238) || 'R1'", "source_line": "3"}
    paths = ("/s/./a", "/s/a")
    found = [sample(n, 1, source_file=f"'{path}' || chr(10) || '.cu'", **code) for n, path in enumerate(paths)]
    text = "'/s/././a' || chr(10) || '.cu' AS source_file, 3 AS source_line, '  x' || chr(8238) || chr(27) || '[2Jy'"
    write_hotspots(con, out, HotspotQueries("ncu", rows(SAMPLE, *found), source_lines=f"SELECT {text} AS text"))
    assert read(con, out, "samples", "DISTINCT instruction, source_file") == [("LDGR1", "/s/a .cu")]
    assert read(con, out, "source_lines", "source_file, text") == [("/s/a .cu", "  xy")]


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
