"""Every profiler's reason for a stall has one of our reasons, and each of these a subsystem of diagnosis."""

import tomllib
from pathlib import Path

import duckdb
import pytest

from rooflens.analysis.hotspots import ranking


def reason(profiler, raw, instruction=None):
    sql = ranking.reason_sql(profiler, "raw", "text")
    given = "SELECT ?::VARCHAR AS raw, ?::VARCHAR AS text"
    (row,) = duckdb.sql(f"SELECT {sql} FROM ({given})", params=[raw, instruction]).fetchall()
    return row[0]


@pytest.mark.parametrize("profiler", ranking.profilers())
def test_what_a_profiler_says_is_a_known_reason(profiler):
    stated = tomllib.loads(Path(ranking.__file__).with_name("stalls.toml").read_text())["raw"][profiler]
    assert stated and {reason(profiler, raw) for raw in stated} <= ranking.reasons().keys()


@pytest.mark.parametrize(
    ("profiler", "raw", "instruction", "right"),
    [
        ("ncu", "long_scoreboard", "FADD R1", "memory"),
        ("ncu", "math_pipe_throttle", "HMMA.16816.F32 R4", "matrix"),
        ("ncu", "math_pipe_throttle", "DFMA R4", "pipe"),
        ("ncu", "new_in_2027", None, "other"),
        ("ncu", None, "FADD", None),
        ("rocprofv3", "WAITCNT", "s_waitcnt vmcnt(0)", "memory"),
        ("rocprofv3", "WAITCNT", "s_waitcnt lgkmcnt(0)", "lds"),
        ("rocprofv3", "WAITCNT", None, "memory"),
    ],
)
def test_a_reason_depends_on_the_instruction_where_the_name_means_several(profiler, raw, instruction, right):
    assert reason(profiler, raw, instruction) == right
