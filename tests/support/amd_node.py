"""A machine with one AMD GPU, as far as rooflens can see; stand-ins play AMD's profilers (standins/README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.base.database import sql_name
from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.standins import application, launches
from rooflens.tests.standins.install import install, machine
from rooflens.tests.support.waiting import ended
from rooflens.tools import profile_command as profiling
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.get_run import RunResult
from rooflens.tools.import_profile import ImportResult, import_profile
from rooflens.tools.plan_profile import PlanResult, plan_profile
from rooflens.tools.running import profile_start
from rooflens.tools.running import start as launch

APP = [sys.executable, "-IS", application.__file__]
FEW = ["SQ_WAVES", "l2.hit_rate_pct"]
"""One pass on every target."""
THREE = ["TD_TD_BUSY_sum", "TD_TC_STALL_sum", "TD_LOAD_WAVEFRONT_sum"]
"""One more than the block has registers for: two passes."""
COPY, FMA = (launches.KERNELS[name]["kernel"] for name in ("copy", "fma"))


class Node:
    """A machine with one AMD GPU, as far as rooflens can see."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.store = Store(folder / "store")
        self.programs = folder / "rocm" / "bin"
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        for name in [n for n in os.environ if n.startswith(("ROCPROF", "ROCP_", "OMPI_", "SLURM_", "PMI", "RANK"))]:
            patch.delenv(name)

    def has(self, version: str = "1.3.2", target: str = "gfx90a", **setting: Any) -> Node:
        """Install the stand-ins and the GPU."""
        install(self.folder / "rocm", **{"version": version, "target": target, **setting})
        machine(self.folder / "root", target)
        self.patch.setenv("PATH", f"{self.programs}:{os.environ['PATH']}")
        roots = Roots(base=self.folder / "root", search=str(self.programs), site=None)
        self.patch.setattr(profiling, "Roots", lambda: roots)
        self.patch.setattr(profile_start, "Roots", lambda: roots)
        return self

    def profile(self, *arguments: str, **options: Any) -> RunResult:
        """profile_command of the program with these arguments."""
        run = profiling.profile_command(self.store, [*APP, *arguments], **{"metrics": FEW, **options})
        return run if "wait_s" in options else ended(self.store, run)

    def manifest(self, workload: str | None) -> Manifest:
        assert workload is not None
        return self.store.resolve(workload)

    def manifest_warnings(self, workload: str | None) -> list[str]:
        return [warning.text for warning in self.manifest(workload).warnings]

    def rows(
        self, workload: str | None, *columns: str, table: str = "", rest: str = ""
    ) -> list[tuple[Any, ...]]:  # fmt: skip
        """Columns of dispatches (d.) joined with their counters, by process and dispatch; or of another table."""
        found = self.manifest(workload)
        names = ", ".join(c if c.startswith("d.") else f"c.{sql_name(c)}" for c in columns)
        if table:
            return duckdb.sql(f"SELECT {', '.join(columns)} FROM '{self.store.file(found, table)}' {rest}").fetchall()
        return duckdb.sql(
            f"SELECT {names} FROM '{self.store.file(found, 'dispatches')}' d "
            f"JOIN '{self.store.file(found, 'counters')}' c USING (dispatch_id) ORDER BY d.pid, dispatch_id"
        ).fetchall()

    def by_hand(self, plan: PlanResult, folder: str = "hand", **env: str) -> Path:
        """Do what a person does with a plan on another machine: write the files, run the commands one by one."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        subprocess.run(["bash", "-c", plan.prepare], cwd=place, check=True)
        file, text = plan.files.columns.index("file"), plan.files.columns.index("text")
        for row in plan.files.rows:
            (place / row[file]).write_text(row[text], encoding="utf-8")
        for command in plan.commands:
            done = subprocess.run(
                command.argv, cwd=place, env={**os.environ, **command.env, **env},
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command.shell, done.stderr)
        return place / "rooflens_run"

    def hand(self, *arguments: str, target: str = "gfx90a", **options: Any) -> ImportResult:
        """plan_profile for a program with these arguments, its commands run by hand, and the folder imported."""
        asked = {"metrics": FEW, "command": [*APP, *arguments], "detail": "full", **options}
        return import_profile(self.store, str(self.by_hand(plan_profile(self.store, target, **asked))))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    yield Node(tmp_path, monkeypatch)
    launch.stop_all()


def expected(counter: str, *kernels: str, target: str = "gfx90a") -> list[float]:
    return [launches.count(target, counter, launches.launch(name)) for name in kernels]


def launching(*names: str) -> list[str]:
    """Arguments of the program that make it launch these kernels."""
    return [argument for name in names for argument in ("--launch", name)]
