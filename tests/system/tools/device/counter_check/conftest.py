"""The devices that the unit tests of the check play."""

from rooflens.tests.unit.tools.device.counter_check.conftest import planted, played

__all__ = ["planted", "played"]
