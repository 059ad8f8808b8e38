"""Hand-made machines."""

from rooflens.tests.support.machines import emulated, machine

__all__ = ["emulated", "machine"]
