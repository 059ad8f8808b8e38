"""What tests of runs without a process share."""

from rooflens.tests.support.bench import bench
from rooflens.tests.support.small_store import store

__all__ = ["bench", "store"]
