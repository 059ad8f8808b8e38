"""Laptops on their battery."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.tools.device.machine.survey import on_battery


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ({}, False),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}, "AC": {"type": "Mains", "online": "0"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Charging"}, "AC": {"type": "Mains", "online": "1"}}, False),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}, "AC": {"type": "Mains", "online": "1"}}, False),
        ({"hidpp_0": {"type": "Battery", "status": "Discharging", "scope": "Device"}}, False),
        ({"BAT0": {"type": "Battery", "status": "Unknown"}}, False),
    ],
)
def test_a_machine_on_its_battery_is_known(machine: Any, supplies: dict[str, dict[str, str]], expected: bool) -> None:
    for name, files in supplies.items():
        for file, text in files.items():
            machine.write(f"sys/class/power_supply/{name}/{file}", f"{text}\n")
    assert on_battery(machine.roots) is expected
