"""Every profiler's reason for a stall has one of our reasons, and each of these a subsystem of diagnosis."""

import tomllib
from pathlib import Path

import duckdb
import pytest
from rooflens.analysis.hotspots import stalls


def test_reasons_point_at_subsystems_that_diagnosis_knows():
    known = {"dispatch", "instruction_fetch", "salu", "valu", "sfu", "matrix", "lds", "vl1d", "l2", "hbm", "fabric",
             "scratch", "atomics", "barrier", "divergence", "occupancy", "latency", "unknown"}  # fmt: skip
    classes = tomllib.loads(Path(stalls.__file__).with_name("classes.toml").read_text())
    assert {r.subsystem for r in stalls.reasons().values()} <= known
    assert {c["subsystem"] for c in classes.values()} <= known


@pytest.mark.parametrize("profiler", stalls.profilers())
def test_what_a_profiler_says_is_a_known_reason(profiler):
    for raw in stalls.raw_names(profiler):
        assert stalls.reason_of(profiler, raw) in stalls.reasons()


@pytest.mark.parametrize(
    ("profiler", "raw", "instruction", "reason"),
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
def test_a_reason_depends_on_the_instruction_where_the_name_means_several(profiler, raw, instruction, reason):
    assert stalls.reason_of(profiler, raw, instruction) == reason
    values = [raw, instruction]
    sql = stalls.reason_sql(profiler, "raw", "text")
    assert duckdb.sql(
        f"SELECT {sql} FROM (SELECT ?::VARCHAR AS raw, ?::VARCHAR AS text)", params=values
    ).fetchall() == [(reason,)]
