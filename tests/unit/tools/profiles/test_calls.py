"""What a host call does, by the name of its function: one table for HIP, HSA, CUDA, RCCL, NCCL and MPI."""

from __future__ import annotations

import csv

import duckdb

from rooflens.tests import DATA
from rooflens.tools.profiles.timelines.call_kinds import categories, category_of, is_call, kind_of

with (DATA / "host_calls.csv").open(newline="") as file:
    CALLS = {row["function"]: f"{row['kind']} {row['category']}" for row in csv.DictReader(file)}


def test_every_function_has_its_kind_and_category():
    sql = f"SELECT name, {kind_of('name')}, {category_of('name')}, {is_call('name')} FROM (SELECT unnest(?) AS name)"
    found = duckdb.execute(sql, [list(CALLS)]).fetchall()
    assert {name: f"{kind} {category}" for name, kind, category, _ in found} == CALLS
    assert {category for *_, category, _ in found} <= set(categories())
    assert all(call == (category != "host") for *_, category, call in found)
