"""What tests of runs without a process share."""

from rooflens.tests.support.bench import bench, load_shared

__all__ = ["bench", "load_shared"]
