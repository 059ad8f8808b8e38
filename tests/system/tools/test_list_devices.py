"""list_devices as a whole: on this machine, on stand-ins, and what it must not import or print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.store.store import Manifest, Store
from rooflens.server.mcp import toolbox
from rooflens.tools.device.machine.model import Device, InstalledProfiler, Roots
from rooflens.tools.device.machine.survey import Machine, survey
from rooflens.tools.list_devices import answer

HEAVY = ("duckdb", "pandas", "matplotlib", "hip", "amdsmi", "torch", "pynvml")


def machine(*devices: Device, usable: bool | None = True) -> Machine:
    found = [InstalledProfiler(name="rocprofv3", vendor="amd", path="/opt/rocm/bin/rocprofv3", usable=usable)]
    return Machine(list(devices), found, {}, [])


def mi300x(index: int = 0, arch: str = "gfx942", supported: bool = True) -> Device:
    return Device(vendor="amd", index=index, arch=arch, supported=supported, name="AMD Instinct MI300X")


def test_it_prints_nothing_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, json; from rooflens.tools import list_devices as devices;"
        "from rooflens.server.doctor import examination; from rooflens.analysis.store.store import Store\n"
        "early = [m for m in sys.argv[1:] if m in sys.modules]; devices.list_devices(Store('absent'))\n"
        "examination.examine(Store('absent'), examination.Roots())\n"
        "print(json.dumps([early, [m for m in sys.argv[1:] if m in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []] and done.stderr == ""


def test_an_empty_machine_is_an_answer(tmp_path: Path) -> None:
    result = answer(Store(tmp_path / "store"), survey(Roots(base=tmp_path, search="", site=None)))
    assert [d.vendor for d in result.devices] == ["cpu"]
    assert any("No GPU is visible" in note for note in result.notes)
    assert [(p.name, p.usable) for p in result.profilers] == [("perf", False)] and result.next == []


def test_what_the_machine_forbids_is_told_once_whether_or_not_a_profiler_is_there(tmp_path: Path) -> None:
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/1"
    node.mkdir(parents=True)
    (node / "properties").write_text("simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\n")
    roots = Roots(base=tmp_path, search="", site=None)
    found = answer(Store(tmp_path / "store"), survey(roots))
    assert len(found.devices) == 2 and sum("--device /dev/kfd" in note for note in found.notes) == 1
    tool = tmp_path / "opt/rocm/bin/rocprofv3"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n# stand-in written by a test, not the real rocprofv3\necho 'version: 1.0.0'\n")
    tool.chmod(0o755)
    found = answer(Store(tmp_path / "store"), survey(roots))
    assert "--device /dev/kfd" in str(found.profilers[0].fix) and not any("/dev/kfd" in note for note in found.notes)


def test_a_laptop_on_its_battery_is_warned_of(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/power_supply/BAT0"
    folder.mkdir(parents=True)
    (folder / "type").write_text("Battery\n")
    (folder / "status").write_text("Discharging\n")
    roots = Roots(base=tmp_path, search="", site=None)
    assert any("battery" in note for note in answer(Store(tmp_path / "store"), survey(roots)).notes)
    (folder / "status").write_text("Charging\n")
    assert not any("battery" in note for note in answer(Store(tmp_path / "store"), survey(roots)).notes)


def test_next_calls_name_the_target_and_only_closed_sets(tmp_path: Path) -> None:
    calls = answer(Store(tmp_path), machine(mi300x(), mi300x(1))).next
    assert [c.tool for c in calls] == ["run_peak_benchmarks", "plan_profile"]
    assert calls[1].arguments == {"gpu": "gfx942", "metrics": ["overview"]} and "overview" in catalog.presets()
    blocked = answer(Store(tmp_path), machine(mi300x(), usable=False)).next
    assert [c.tool for c in blocked] == ["plan_profile"]


def test_an_unknown_arch_is_told(tmp_path: Path) -> None:
    result = answer(Store(tmp_path), machine(mi300x(arch="gfx906", supported=False)))
    assert any("gfx906" in note and "raw counters" in note for note in result.notes) and result.next == []


def test_masks_of_the_environment_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3")
    assert any("HIP_VISIBLE_DEVICES" in note for note in answer(Store(tmp_path), machine(mi300x())).notes)


def test_a_node_of_64_partitions_stays_small(tmp_path: Path) -> None:
    result = answer(Store(tmp_path), machine(*(mi300x(i) for i in range(64))))
    assert result.total_devices == 64 and len(result.devices) < 16
    assert any(note.endswith("more devices are not shown (amd gfx942).") for note in result.notes)
    assert len(result.model_dump_json()) < 8_000


def test_known_ceilings_come_from_the_store_and_a_damaged_table_is_no_obstacle(tmp_path: Path) -> None:
    import duckdb

    store = Store(tmp_path)
    for select in ("SELECT range AS value FROM range(7)", None):
        with store.draft() as folder:
            if select:
                duckdb.sql(f"COPY ({select}) TO '{folder}/ceilings.parquet' (FORMAT parquet)")
            else:
                (folder / "ceilings.parquet").write_bytes(b"not parquet")
            made = store.publish(folder, Manifest(name="x", format="test", arch="gfx942"))
    assert made.id
    result = answer(store, machine(mi300x()))
    assert [(c.gpu, c.count) for c in result.ceilings_known] == [("gfx942", 7)]
    assert [c.tool for c in result.next] == ["plan_profile", "list_workloads"]


def test_a_store_that_cannot_be_read_does_not_hide_the_devices(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = answer(Store(tmp_path / "file"), machine(mi300x()))
    assert result.devices and any("cannot be read" in note for note in result.notes)


def test_a_server_that_may_not_execute_only_asks_profilers_for_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    for name in ("ncu", "nsys", "perf", "rocprof", "rocprofv2", "rocprofv3", "rocminfo", "nvidia-smi", "amd-smi",
                 "nvcc", "hipcc", "gcc", "git", "sh"):  # fmt: skip
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{ran}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    store = Store(tmp_path / "store", read_only=True)
    for tool in toolbox.tools(read_only=True):
        toolbox.answer(store, tool.name, {}, allow_exec=False)
    profilers = {"ncu", "perf", "rocprof", "rocprofv2", "rocprofv3"}
    assert {*ran.read_text().splitlines()} == {f"{name} --version" for name in profilers}
