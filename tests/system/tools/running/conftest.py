"""Runs of small Python programs under a real supervisor."""

from rooflens.tests.support.run_bench import bench, store

__all__ = ["bench", "store"]
