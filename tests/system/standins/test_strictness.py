"""The stand-ins refuse what the real programs refuse, version by version; otherwise tests with them prove little."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests.standins import application
from rooflens.tests.standins.install import install
from rooflens.tests.standins.options import VERSIONS, parser

Run = Callable[..., "subprocess.CompletedProcess[str]"]
TRUE = ["/bin/true"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run(version, *arguments, env={})`` starts that rocprofv3 in the test's folder."""

    def start(version: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "rocm" / version
        if not folder.exists():
            install(folder, version=version)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ROCPROF")}
        return subprocess.run(
            [str(folder / "bin" / "rocprofv3"), *arguments],
            cwd=tmp_path, env={**clean, **env}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return start


def jobs(folder: Path, *jobs: dict[str, Any]) -> str:
    path = folder / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    return str(path)


def counters(folder: Path, pattern: str = "**/*counter_collection.csv") -> set[str]:
    return {row["Counter_Name"] for file in folder.glob(pattern) for row in csv.DictReader(file.open())}


@pytest.mark.parametrize(
    ("option", "since"),
    [
        (["--pmc", "SQ_WAVES"], "0.5.0"),
        (["--extra-counters", "x.yaml"], "0.5.0"),
        (["--version"], "1.0.0"),
        (["-f", "csv", "--kernel-trace"], "1.0.0"),
        (["--output-format", "rocpd", "--kernel-trace"], "1.0.0"),
        (["--disable-signal-handlers", "--kernel-trace"], "1.0.0"),
        (["--process-sync", "--kernel-trace"], "1.3.2"),
    ],
)
def test_an_option_is_unknown_before_its_version(option: list[str], since: str) -> None:
    order = list(VERSIONS)
    before, first = (tuple(map(int, version.split("."))) for version in (order[order.index(since) - 1], since))
    with pytest.raises(SystemExit, match="2"):
        parser(before).parse_args(option)  # type: ignore[arg-type]
    parser(first).parse_args(option)  # type: ignore[arg-type]


def test_too_many_counters_abort_and_since_2026_end(run: Run, tmp_path: Path) -> None:
    three = ["TD_TD_BUSY_sum", "TD_TC_STALL_sum", "TD_LOAD_WAVEFRONT_sum"]
    log = tmp_path / "log"
    app = [sys.executable, application.__file__, "--log", str(log), "--sleep", "20"]
    assert run("1.0.0", "--pmc", *three, "--", *app).returncode == -signal.SIGABRT
    assert run("1.3.2", "--pmc", *three, "--", *app).returncode == 1
    assert run("1.0.0", "--pmc", *three[:2], "TD_TD_BUSY", "--", *TRUE).returncode == 0


def test_extra_counters_in_the_layout_of_the_version(run: Run, tmp_path: Path) -> None:
    (tmp_path / "flat.yaml").write_text(
        "W_ACCUM:\n  architectures:\n    gfx90a/gfx942:\n      expression: accumulate(SQ_LEVEL_WAVES, HIGH_RES)\n"
        "  description: 'waves, summed over time'\n"
    )
    (tmp_path / "nested.yaml").write_text(
        'rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n  - name: HIT_3\n    description: ""\n'
        "    properties: []\n    definitions:\n    - architectures:\n      - gfx90a\n"
        "      expression: select(TCC_HIT,[DIMENSION_XCC=[0],DIMENSION_INSTANCE=[3]])\n"
    )
    rest = ["--output-format", "csv", "-d", "out", "--", *TRUE]
    assert run("0.6.0", "--pmc", "W_ACCUM", "-E", "flat.yaml", *rest).returncode == 0
    assert counters(tmp_path / "out") == {"W_ACCUM"}
    assert run("1.0.0", "--pmc", "HIT_3", "-E", "nested.yaml", *rest).returncode == 0
    assert counters(tmp_path / "out") == {"W_ACCUM", "HIT_3"}
    assert run("1.0.0", "--pmc", "W_ACCUM", "-E", "flat.yaml", *rest).returncode == 1
    assert run("0.6.0", "--pmc", "HIT_3", "-E", "nested.yaml", *rest).returncode == 1


def test_an_accumulation_takes_two_registers(run: Run, tmp_path: Path) -> None:
    one = {"name": "L", "description": "", "properties": [], "definitions": [
        {"architectures": ["gfx90a"], "expression": "reduce(accumulate(SQ_LEVEL_WAVES, HIGH_RES), sum)"}]}  # fmt: skip
    (tmp_path / "e.yaml").write_text(json.dumps({"rocprofiler-sdk": {"counters-schema-version": 1, "counters": [one]}}))
    six = ["SQ_WAVES", "SQ_INSTS", "SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_LDS", "SQ_INSTS_SMEM"]
    assert run("1.3.2", "--pmc", *six, "L", "-E", "e.yaml", "--", *TRUE).returncode == 0
    assert run("1.3.2", "--pmc", *six, "SQ_IFETCH", "L", "-E", "e.yaml", "--", *TRUE).returncode == 1


def test_the_database_has_the_columns_of_the_real_one(run: Run, tmp_path: Path, shared: Path) -> None:
    run("1.3.2", "--kernel-trace", "-d", "o", "-o", "x", "--", *TRUE)
    real = next((shared / "rocprofv3" / "kernel_trace").glob("*.db"))

    def shape(file: Path) -> dict[str, list[str]]:
        with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as con:
            views = [n for (n,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
            return {v: [d[0] for d in con.execute(f'SELECT * FROM "{v}" LIMIT 0').description] for v in views}

    mine, theirs = shape(tmp_path / "o" / "x_results.db"), shape(real)
    assert {"kernels", "counters_collection", "rocpd_info_process", "rocpd_pmc_event"} <= set(mine)
    assert {name: theirs[name] for name in mine} == mine


def test_the_csv_has_the_columns_of_the_real_one(run: Run, tmp_path: Path, shared: Path) -> None:
    run("1.3.2", "--kernel-trace", "--stats", "-f", "csv", "-d", "o", "-o", "x", "--", *TRUE)
    for kind in ("kernel_trace", "kernel_stats", "agent_info"):
        real = next((shared / "rocprofv3" / "kernel_trace").glob(f"*_{kind}.csv"))
        assert (tmp_path / "o" / f"x_{kind}.csv").read_text().splitlines()[0] == real.read_text().splitlines()[0]
