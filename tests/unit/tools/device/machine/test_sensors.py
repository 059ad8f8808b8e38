"""Clocks, power and causes from a made sysfs tree and a made-up NVML."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.tools.device.machine import sensors
from rooflens.tools.device.machine.sensors import SensorReading

PCI = "0000:c1:00.0"


class Card:
    """The files of one AMD card."""

    def __init__(self, sysfs: Path) -> None:
        self.sysfs, self.device = sysfs, sysfs / "bus/pci/devices" / PCI
        self.device.mkdir(parents=True)

    def write(self, name: str, content: str | bytes) -> None:
        path = self.device / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def metrics(self, content: int, size: int, form: str, offset: int, *values: int) -> None:
        """A gpu_metrics of format 1 and a content revision, with values at an offset."""
        raw = bytearray(size)
        struct.pack_into("<HBB", raw, 0, size, 1, content)
        struct.pack_into(form, raw, offset, *values)
        self.write("gpu_metrics", bytes(raw))

    def read(self) -> SensorReading:
        reader = sensors.reader("amd", PCI.upper(), self.sysfs)
        assert reader is not None
        return reader()


@pytest.fixture
def card(tmp_path: Path) -> Card:
    return Card(tmp_path)


def test_an_amd_card_tells_clocks_power_heat_and_use_or_at_least_the_marked_level(card: Card) -> None:
    card.write("pp_dpm_sclk", "0: 500Mhz\n1: 1700Mhz *\n")
    card.write("pp_dpm_mclk", "0: 400Mhz *\n1: 1600Mhz\n")
    assert card.read() == SensorReading(clock_mhz=1700.0, memory_clock_mhz=400.0)
    for name, value in (("freq1", 1_700_000_000), ("freq2", 1_600_000_000), ("temp1", 41_000), ("temp2", 63_000)):
        card.write(f"hwmon/hwmon3/{name}_input", f"{value}\n")
    card.write("hwmon/hwmon3/power1_average", "285000000\n")
    card.write("gpu_busy_percent", "97\n")
    assert card.read() == SensorReading(1700.0, 1600.0, 285.0, 63.0, 97.0, None)


def test_garbage_and_silence_are_null(card: Card, tmp_path: Path) -> None:
    card.write("hwmon/hwmon0/freq1_input", "many\n")
    card.write("pp_dpm_sclk", "no mark\n: *\n")
    for raw in (b"", b"\1", b"\xff" * 4, b"\x10\0\1\3" + bytes(12)):
        card.write("gpu_metrics", raw)
        assert card.read() == SensorReading()
    assert sensors.reader("amd", "0000:ff:00.0", tmp_path) is None
    assert sensors.reader("amd", None) is sensors.reader("cpu", PCI) is None


@pytest.mark.parametrize(
    ("mask", "causes"),
    [
        (0, set()),
        (1 << 0, {"power"}),
        (1 << 18 | 1 << 36, {"current", "temperature"}),
        (1 << 47, {"hardware"}),
        (2**64 - 1, None),
    ],
)
def test_the_mi200_tells_causes_in_bits_of_the_driver(card: Card, mask: int, causes: set[str] | None) -> None:
    card.write("hwmon/hwmon0/freq1_input", "1\n")
    card.metrics(3, 120, "<Q", 112, mask)
    assert card.read().held_back == causes


@pytest.mark.parametrize(
    ("content", "size", "offset", "mask", "causes"),
    [(4, 300, 40, 0, set()), (4, 300, 40, 2, {"power"}), (5, 400, 104, 1 | 16, {"hardware", "temperature"})],
)
def test_the_mi300_tells_causes_in_bits_of_its_own(
    card: Card, content: int, size: int, offset: int, mask: int, causes: set[str]
) -> None:
    card.write("hwmon/hwmon0/freq1_input", "1\n")
    card.metrics(content, size, "<I", offset, mask)
    assert card.read().held_back == causes


@pytest.mark.parametrize(("content", "offset"), [(6, 36), (7, 44), (8, 44)])
def test_later_firmware_tells_how_long_each_cause_lasted_and_growth_is_what_counts(
    card: Card, content: int, offset: int
) -> None:
    card.write("hwmon/hwmon0/freq1_input", "1\n")
    read = sensors.reader("amd", PCI, card.sysfs)
    assert read is not None
    told = []
    for values in ((5, 70, 0, 0, 9), (5, 90, 0, 0, 9), (5, 90, 0, 0, 9), (6, 90, 0, 1, 9)):
        card.metrics(content, 400, "<5I", offset, *values)
        told.append(read().held_back)
    assert told == [None, {"power"}, set(), {"hardware", "temperature"}]


class _NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a made-up NVML answers by function; an exception is raised."""
    asked: dict[str, Any] = {}
    answers: dict[str, Any] = {
        "asked": asked,
        "Init": None, "DeviceGetHandleByPciBusId": "handle", "DeviceGetCurrentClocksThrottleReasons": 0,
        "DeviceGetClockInfo": 1980, "DeviceGetPowerUsage": 698_500, "DeviceGetTemperature": 66,
        "DeviceGetUtilizationRates": SimpleNamespace(gpu=100),
    }  # fmt: skip

    def function(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            asked[name] = arguments
            if isinstance(answers[name], Exception):
                raise answers[name]
            return answers[name]

        return call

    fake = SimpleNamespace(NVMLError=_NVMLError, NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0)
    for name in answers.keys() - {"asked"}:
        setattr(fake, f"nvml{name}", function(name))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    sensors.handle_at.cache_clear()
    yield answers
    sensors.handle_at.cache_clear()


@pytest.mark.parametrize(
    ("bits", "causes"),
    [(0x1, set()), (0x4, {"power"}), (0x2 | 0x40, {"limit", "temperature"}), (0x8, {"hardware"}), (0x80, {"power"})],
)
def test_reasons_of_nvml_become_causes_and_idle_is_none(nvml: dict[str, Any], bits: int, causes: set[str]) -> None:
    nvml["DeviceGetCurrentClocksThrottleReasons"] = bits
    read = sensors.reader("nvidia", PCI)
    assert read is not None and read().held_back == causes


def test_nvml_tells_everything_or_null_and_without_it_there_is_no_reader(nvml: dict[str, Any]) -> None:
    read = sensors.reader("nvidia", PCI)
    assert read is not None
    assert read() == SensorReading(1980.0, 1980.0, 698.5, 66.0, 100.0, frozenset())
    assert nvml["asked"]["DeviceGetHandleByPciBusId"] == ("00000000:c1:00.0",)
    for name in ("CurrentClocksThrottleReasons", "ClockInfo", "PowerUsage", "Temperature", "UtilizationRates"):
        nvml[f"DeviceGet{name}"] = _NVMLError("not supported")
    read = sensors.reader("nvidia", PCI)
    assert read is not None and read() == SensorReading()
    nvml["Init"] = _NVMLError("no driver")
    sensors.handle_at.cache_clear()
    assert sensors.reader("nvidia", PCI) is None
