"""What a newcomer is told of the settings of a machine."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.analysis.base.problems import MissingTool
from rooflens.analysis.store.store import Store
from rooflens.server.doctor.examination import examine
from rooflens.tests.unit.tools.device.machine.test_host_settings import CARD, host
from rooflens.tools import check_counters as checking
from rooflens.tools.device.machine.survey import survey
from rooflens.tools.list_devices import answer
from rooflens.tools.running.profiler_choice import choose

RX_9070 = {"simd_count": 112, "simd_per_cu": 2, "num_xcc": 1, "gfx_target_version": 120001, "device_id": 0x7550}


def checks(machine: Any, folder: Any) -> dict[str, tuple[str, str]]:
    """The state and the remedy of each check of doctor that is not in order."""
    _, told = examine(Store(folder / "store"), machine.roots)
    return {one.name: (one.state, one.fix) for one in told if one.state != "ok"}


def test_a_newcomer_with_a_radeon_is_told_what_it_forbids_before_anything_runs(
    machine: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.gpu(1, **RX_9070)
    host(machine, governor="powersave")
    machine.write(f"{CARD}/power_dpm_force_performance_level", "auto\n")
    machine.program("rocprofv3", "echo 'version: 1.3.2'", folder="opt/rocm/bin")
    told = checks(machine, tmp_path)
    command = "\n  echo profile_standard | sudo tee /sys/bus/pci/devices/"
    assert command in told["setting power_level (GPU 0)"][1]
    assert {"setting governor", "known defect zero_wave_cycles"} <= set(told)
    # The level is known here, so the general warning about levels would only repeat it.
    assert "known defect zero_below_profile_level" not in told
    found = survey(machine.roots)
    notes = answer(Store(tmp_path / "store"), found).notes
    assert any(command in note for note in notes)
    assert any("zero_wave_cycles" in note and "governor" not in note for note in notes)
    monkeypatch.setattr(checking, "Roots", lambda: machine.roots)
    with pytest.raises(MissingTool, match="(?s)counters of this GPU are stopped.*echo profile_standard"):
        checking.check_counters(Store(tmp_path / "store"))
    choice = choose(found, None, "auto", {})
    assert {one.code for one in choice.settings if not one.sound} == {"power_level", "governor"}
