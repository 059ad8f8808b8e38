"""A GPU that the catalogue does not know: what it gets at once, and the draft of its file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.store.store import Store
from rooflens.server.commands import command
from rooflens.server.doctor.examination import draft_target
from rooflens.tests.support.machines import Machine
from rooflens.tools.device.machine import model, nvidia
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.device.machine.programs import ProgramAnswer
from rooflens.tools.device.machine.survey import survey
from rooflens.tools.list_devices import answer
from rooflens.tools.plan_profile import plan_profile

PHOENIX = {
    "simd_count": 24, "simd_per_cu": 2, "num_xcc": 1, "gfx_target_version": 110003, "device_id": 0x15BF,
    "max_waves_per_simd": 16, "wave_front_size": 32, "max_engine_clk_fcompute": 2799,
}  # fmt: skip
UUID = "GPU-00000000-1111-2222-3333-444444444444"
GB10 = {
    "sms": 48, "threads_per_sm": 1536, "registers_per_sm": 65536, "shared_bytes_per_sm": 102400, "blocks_per_sm": 24,
    "shared_bytes_per_block": 101376, "warp_size": 32, "bus_bits": 256, "memory_khz": 8533000,
}  # fmt: skip


@pytest.fixture
def unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "machine")
    roots = machine.roots
    monkeypatch.setattr(model, "Roots", lambda: roots)
    return machine


def phoenix(machine: Machine) -> None:
    """A Radeon 780M, as the kernel driver shows it."""
    machine.gpu(1, **PHOENIX)
    machine.write("sys/bus/pci/devices/0000:03:00.0/product_name", 'AMD "Radeon" 780M\n')
    caches = "sys/class/kfd/kfd/topology/nodes/1/caches"
    machine.write(f"{caches}/0/properties", "level 1\ncache_line_size 64\ntype 10\n")
    machine.write(f"{caches}/1/properties", "level 1\ncache_line_size 128\ntype 9\n")
    machine.write(f"{caches}/2/properties", "level 2\ncache_line_size 128\ntype 9\n")


def gb10(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GB10, as NVML and the CUDA driver describe it."""
    machine.write("proc/driver/nvidia/version", "made up")
    gpu = {"index": 0, "uuid": UUID, "name": "NVIDIA GB10", "arch": "sm_121", "clock_max_mhz": 3003}
    lines = [json.dumps({"driver": "580.1", "gpus": [gpu]}), json.dumps({UUID: GB10})]
    monkeypatch.setattr(nvidia, "ask", lambda argv, s: ProgramAnswer(0, "\n".join(lines)))


def loaded(text: str, target: str, folder: Path, expression: str) -> str:
    """The value of an expression over ``t``, the target's entry, where the draft is in the catalogue's folder."""
    (folder / "gpus").mkdir(parents=True)
    (folder / "gpus" / f"{target}.toml").write_text(text, encoding="utf-8")
    code = (
        "from rooflens.analysis.catalogue import metrics, targets;"
        f"t = targets.gpu({target!r}); print({expression}, len(metrics.metrics({target!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={**os.environ, "ROOFLENS_CATALOGUE": str(folder)},
    )  # fmt: skip
    return done.stdout


def test_the_draft_of_an_amd_gpu_loads_with_the_formulas_of_the_near_target(unknown: Machine, tmp_path: Path) -> None:
    phoenix(unknown)
    target, text = draft_target(survey(unknown.roots))
    assert target == "gfx1103"
    fact = "t.facts[%r].value"
    told = loaded(
        text, target, tmp_path / "catalogue",
        f"t.like, t.pci_names, t.counter_limits, t.occupancy is not None, {fact % 'vl1d_line_bytes'}, "
        f"{fact % 'max_waves_per_cu'}, {fact % 'wave_size'}",
    )  # fmt: skip
    words = "gfx1102 {'0x15bf': '\"Radeon\" 780M'} {'SQ': 8, 'TA': 2, 'GL2C': 4, 'GRBM': 2} True 128.0 32.0 32.0"
    assert told.startswith(words) and int(told.split()[-1]) > 50
    assert "# [facts.cu_per_gpu]\n# value = 12\n" in text and "# [facts.max_sclk]\n# value = 2799\n" in text


def test_the_draft_of_an_nvidia_gpu_has_the_limits_that_the_cuda_driver_states(
    unknown: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gb10(unknown, monkeypatch)
    target, text = draft_target(survey(unknown.roots))
    expression = (
        "t.like, t.occupancy.max_waves_per_simd.value, t.occupancy.workgroup_slots.value, t.occupancy.lds_bytes.value"
    )
    told = loaded(text, target, tmp_path / "catalogue", expression)
    assert told.startswith("sm_120 12.0 24.0 102400.0 ") and int(told.split()[-1]) > 100
    assert "(the driver states 256 bits)" in text and "# value = 8533\n" in text


def test_the_draft_of_a_generation_without_a_near_target_loads_without_metrics(
    unknown: Machine, tmp_path: Path
) -> None:
    unknown.gpu(1, gfx_target_version=70000)
    target, text = draft_target(survey(unknown.roots))
    assert loaded(text, target, tmp_path / "catalogue", "t.like").split() == ["None", "0"]


def test_the_command_writes_the_draft_once_and_says_where_it_belongs(unknown: Machine, tmp_path: Path) -> None:
    from argparse import ArgumentParser

    phoenix(unknown)
    doctor, parser = command("doctor"), ArgumentParser()
    doctor.arguments(parser)
    file = tmp_path / "gfx1103.toml"
    options = parser.parse_args(["--draft", str(file)])
    outcome = doctor.execute(options, Store(tmp_path / "store"))
    assert not isinstance(outcome, int) and 'target = "gfx1103"' in file.read_text()
    assert (
        outcome.facts["draft"] == {"file": str(file), "target": "gfx1103"} and "gpus/gfx1103.toml" in outcome.words[-1]
    )
    with pytest.raises(BadArgument):
        doctor.execute(options, Store(tmp_path / "store"))


def test_a_machine_whose_gpus_are_known_needs_no_draft(unknown: Machine) -> None:
    unknown.gpu(1)
    with pytest.raises(NotFound, match="no GPU here that needs a file.*gfx942"):
        draft_target(survey(unknown.roots))


def test_one_sentence_names_the_file_that_an_unknown_gpu_needs(unknown: Machine, tmp_path: Path) -> None:
    phoenix(unknown)
    notes = answer(Store(tmp_path / "store"), survey(Roots(base=unknown.base, search="", site=None))).notes
    (note,) = [note for note in notes if "gfx1103.toml" in note]
    assert "rooflens doctor --draft gfx1103.toml" in note and "only times, timelines, hotspots" in note


def test_times_and_timelines_of_an_unknown_gpu_are_planned(tmp_path: Path) -> None:
    for gpu, metrics, step in (
        ("gfx1103", [], "timing"),
        ("gfx1103", ["timeline"], "timing"),
        ("sm_121", [], "pass_1"),
    ):
        plan = plan_profile(Store(tmp_path), gpu, metrics)
        assert [one.step for one in plan.commands] == [step] and plan.gpu == gpu
        assert plan.passes.rows in ([], [[1, None, 0, 0, ""]])


def test_counters_of_an_unknown_gpu_are_refused_with_the_file_to_add(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r'gpus/gfx1103\.toml.*metrics=\[\], \["timeline"\]'):
        plan_profile(Store(tmp_path), "gfx1103")
    with pytest.raises(NotFound, match="Unknown GPU 'voodoo2'"):
        plan_profile(Store(tmp_path), "voodoo2", ["timeline"])
