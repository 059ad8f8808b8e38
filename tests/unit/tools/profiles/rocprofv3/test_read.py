"""Runs read piece by piece, databases with the views of AMD, and recorded databases."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, repeated, run
from rooflens.tools.profiles.merging import contract
from rooflens.tools.profiles.parsing import spool
from rooflens.tools.profiles.parsing import sqlite_database as rocpd
from rooflens.tools.profiles.rocprofv3 import json as json_records

COPY = Launch('copy<double, 2>(double*, "x", int)', grid=(64, 32, 2), group=(16, 16, 1), scratch=16)
LDS = Launch("reduce(float*)", grid=(4096, 1, 1), group=(512, 1, 1), static_lds=1024, dynamic_lds=512, queue=2)
RUN = run(
    *repeated(2, COPY, SQ_INSTS_VALU=[64.0, 65.0], GRBM_GUI_ACTIVE=[8000.0, 8008.0]),
    replace(LDS, counters={"SQ_INSTS_VALU": [8.0, 24.0, 32.0], "GRBM_GUI_ACTIVE": [1000.0] * 8}),
)  # fmt: skip


@pytest.fixture(params=["rocpd", "json", "csv"])
def written(request, writer):
    """The run in one format."""
    if request.param == "rocpd":
        return write_rocpd(writer.place("out/node01/4711_results.db"), RUN)
    if request.param == "json":
        return writer.json("out/node01/4711_results.json", RUN)
    return writer.counters("out/node01/4711", RUN)


def test_what_is_read_piece_by_piece_is_the_same(bench, written, monkeypatch):
    whole = bench.load(written)
    monkeypatch.setattr(spool, "_SPOOLED", 5)
    monkeypatch.setattr(contract, "_VALUES_AT_ONCE", 3)
    monkeypatch.setattr(rocpd, "_BATCH", 2)
    monkeypatch.setattr(json_records, "_BATCH", 2)
    monkeypatch.setattr(spool, "_BATCH", 2)
    pieces = bench.load(written)
    for table in ("dispatches", "counters"):
        assert bench.rows(pieces, table) == bench.rows(whole, table)


def test_counters_agree_with_the_view_of_amd(bench, writer, amd_schema):
    file = write_rocpd(writer.place("4711_results.db"), RUN, schema=amd_schema)
    con = sqlite3.connect(file)
    view = con.execute(
        "SELECT dispatch_id, pid, kernel_name, counter_name, value, grid_size, workgroup_size, lds_block_size, "
        'scratch_size, vgpr_count, accum_vgpr_count, sgpr_count, "start", duration FROM counters_collection '
        "ORDER BY 1, 4"
    ).fetchall()
    con.close()
    assert len(view) == 6
    done = bench.load(file)
    wide = {row[0]: row for row in bench.rows(done, "counters", "dispatch_id, GRBM_GUI_ACTIVE, SQ_INSTS_VALU")}
    launches = bench.rows(
        done,
        "dispatches",
        "dispatch_id, pid, kernel, grid, workgroup_size, lds_bytes, scratch_bytes, vgpr, agpr, sgpr, start_ns, "
        "duration_ns",
    )
    ours = [
        (d[0], d[1], d[2], name, wide[d[0]][i], *d[3:])
        for d in launches
        for i, name in enumerate(("GRBM_GUI_ACTIVE", "SQ_INSTS_VALU"), 1)
    ]
    assert ours == view


def test_views_are_read_where_the_tables_are_missing(bench, writer, amd_schema):
    file = write_rocpd(writer.place("whole.db"), RUN, schema=amd_schema)
    con = sqlite3.connect(file)
    bare = sqlite3.connect(writer.place("views.db"))
    for view in ("kernels", "counters_collection"):
        rows = con.execute(f"SELECT * FROM {view}")
        names = ", ".join(f'"{column[0]}"' for column in rows.description)
        bare.execute(f"CREATE TABLE {view} ({names})")
        bare.executemany(f"INSERT INTO {view} VALUES ({', '.join('?' * len(rows.description))})", rows.fetchall())
    bare.commit()
    bare.close()
    con.close()
    whole, views = bench.load(file), bench.load(bench.folder / "views.db")
    for table in ("dispatches", "counters"):
        assert bench.rows(views, table) == bench.rows(whole, table)
