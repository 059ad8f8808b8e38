"""The recorder of CUPTI, and a bench to import what it writes."""

from rooflens.tests.support.bench import bench
from rooflens.tests.support.cupti_kit import kit, kits

__all__ = ["bench", "kit", "kits"]
