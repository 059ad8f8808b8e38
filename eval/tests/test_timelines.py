"""The programs recorded on an H200: the verdict is what holds them back, no fix beats its bound."""

from __future__ import annotations

import importlib.util
import sys
import tarfile
from types import ModuleType

import pytest

from rooflens.tests import ROOT

HERE = ROOT / "eval" / "timelines"


@pytest.fixture(scope="module")
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timelines_run", HERE / "run.py")
    assert spec and spec.loader
    sys.modules["timelines_run"] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_verdict_is_the_cause_that_its_fix_removes_and_no_bound_is_broken(
    run: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {row.known.name: row for row in run.scored(run.RECORDED)}
    wrong = {name: row.verdict for name, row in found.items() if not row.right}
    assert not wrong and len(found) >= 13
    assert not [name for name, row in found.items() if row.bound_holds is False]
    assert {row.verdict for row in found.values()} >= {"gpu", "launch", "host", "copies", "synchronisation"}
    assert found["first_step_compiles"].warm_up == 1 and found["printing"].steps == 14
    assert found["pageable_copy"].step_us == pytest.approx(found["pageable_copy"].measured.recorded_us, rel=0.02)
    shown = run.table(found.values())
    assert "overhead (%)" in shown.splitlines()[0] and len(shown.splitlines()) == len(found) + 1


def test_every_kept_trace_is_of_a_known_program_with_its_times(run: ModuleType) -> None:
    with tarfile.open(run.RECORDED / run.TRACES) as tar:
        kept = {name.removesuffix(".record.gz") for name in tar.getnames()}
    assert kept <= set(run.known()) and kept == {row.program for row in run.measured(run.RECORDED)}
    assert (run.RECORDED / run.TRACES).stat().st_size < 4 << 20


def test_a_wrong_verdict_and_a_broken_bound_are_told(run: ModuleType) -> None:
    known = run.Known("p", "cuda", ["host"], "", "", warm_up=1)
    times = run.Measured("p", 100.0, 10.0, 150.0)
    told = run.Scored(known, times, "host", 0.9, 5.0, 10, 1, 150.0)
    assert told.right and told.bound_holds is False and times.overhead_pct == pytest.approx(50)
    assert not run.Scored(known, times, "host", 0.9, 5.0, 10, 0, 150.0).right, "the warm-up was not found"
    assert run.Scored(known, run.Measured("p", 1.0, None, None), "gpu", 0.9, 5.0, 1, 1, None).bound_holds is None
