"""Sampling beside a program."""

from __future__ import annotations

import threading

import pytest

from rooflens.analysis.launches.device_clocks import COLUMNS
from rooflens.tools.device.machine import sensors
from rooflens.tools.device.machine.sensors import Sensor, SensorReading, SensorSampler

GPU = Sensor("amd", "0000:c1:00.0", "GPU-1")


def test_rows_are_those_of_the_table_and_name_step_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = threading.Event()

    def read() -> SensorReading:
        sampled.set()
        return SensorReading(clock_mhz=1700.0, held_back=frozenset({"power", "current"}))

    monkeypatch.setattr(sensors, "reader", lambda vendor, pci, sysfs: read)
    with SensorSampler([GPU], "timing") as sampler:
        assert sampled.wait(60)
    assert sampler.rows[0].keys() == COLUMNS.keys()
    first = sampler.rows[0]
    assert (first["step"], first["device_uuid"], first["clock_mhz"], first["power_w"], first["held_back"]) == (
        "timing", "GPU-1", 1700.0, None, "current,power",
    )  # fmt: skip


def test_a_long_program_leaves_a_bounded_number_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    enough, count = threading.Event(), 0

    def read() -> SensorReading:
        nonlocal count
        count += 1
        if count >= 200:
            enough.set()
        return SensorReading()

    monkeypatch.setattr(sensors, "reader", lambda vendor, pci, sysfs: read)
    with SensorSampler([GPU], "timing", every_s=1e-9, most=16) as sampler:
        assert enough.wait(60)
    assert count >= 200 and len(sampler.rows) <= 16


def test_a_driver_that_hangs_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    never, asked = threading.Event(), threading.Event()

    def read() -> SensorReading:
        asked.set()
        never.wait(120)
        return SensorReading()

    monkeypatch.setattr(sensors, "reader", lambda vendor, pci, sysfs: read)
    monkeypatch.setattr(sensors, "_PATIENCE_S", 0.01)
    with SensorSampler([GPU], "timing") as sampler:
        assert asked.wait(60)
    assert not never.is_set() and sampler.rows == []
    never.set()


def test_no_sensors_no_thread_and_no_rows() -> None:
    # By identity: a thread of an earlier test may end at any moment.
    before = set(threading.enumerate())
    with SensorSampler([], "timing") as sampler:
        assert not set(threading.enumerate()) - before
    assert sampler.rows == []
