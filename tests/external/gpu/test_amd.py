"""Known kernels, a profile and its metrics on an AMD GPU; ``pytest -m amd tests/external/gpu`` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tools.check_counters import check_counters
from rooflens.tools.device.benchmarks.hip import clangs
from rooflens.tools.device.machine.model import Device, Roots
from rooflens.tools.device.machine.survey import survey
from rooflens.tools.get_run import get_run
from rooflens.tools.run_peak_benchmarks import run_peak_benchmarks
from rooflens.tools.running import start as launch
from rooflens.tools.running.run_state import FINAL

pytestmark = pytest.mark.amd


@pytest.fixture(scope="module")
def device() -> Device:
    """The first AMD GPU with counters that may be read."""
    machine = survey(Roots())
    devices = [one for one in machine.gpus if one.vendor == "amd"]
    if not devices:
        pytest.skip("needs an AMD GPU: the kernel driver shows none")
    if not any(one.vendor == "amd" and one.path for one in machine.profilers):
        pytest.skip("needs a profiler of ROCm: rocprofv3 is not installed")
    return devices[0]


def _ended(store: Store, run_id: str) -> dict[str, object]:
    while (found := get_run(store, run_id, wait_s=45)).state not in FINAL:
        pass
    launch.stop_all()
    assert found.state == "done", (found.problem, found.output)
    return found.model_dump()


def test_known_kernels_run_under_the_profiler_and_most_metrics_are_determined(device: Device, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    found = _ended(store, check_counters(store, device=device.uuid or str(device.index), wait_s=1).run_id)
    check = found["check"]
    assert isinstance(check, dict)
    verdicts = [row[check["columns"].index("verdict")] for row in check["rows"]]
    print(check["rows"])
    assert sum(verdict != "not_determined" for verdict in verdicts) >= 60
    assert verdicts.count("holds") > verdicts.count("off")


def test_every_micro_benchmark_gives_the_right_results(device: Device, tmp_path: Path) -> None:
    if not clangs():
        pytest.skip("needs a compiler for AMD: hiprtc, or a clang with lld")
    store = Store(tmp_path / "store")
    found = _ended(store, run_peak_benchmarks(store, device="amd", mode="functional", wait_s=1).run_id)
    ceilings = found["ceilings"]
    assert isinstance(ceilings, dict)
    status = ceilings["columns"].index("status")
    assert [row for row in ceilings["rows"] if row[status] == "failed"] == []
