"""The stand-ins refuse what the real programs refuse, version by version; otherwise tests with them prove little."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

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
    run("1.3.2", "--kernel-trace", "-f", "csv", "-d", "o", "-o", "x", "--", *TRUE)
    for kind in ("kernel_trace", "agent_info"):
        real = next((shared / "rocprofv3" / "kernel_trace").glob(f"*_{kind}.csv"))
        assert (tmp_path / "o" / f"x_{kind}.csv").read_text().splitlines()[0] == real.read_text().splitlines()[0]
