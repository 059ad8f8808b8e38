"""A bench to import recorded folders on, and runs to write."""

from rooflens.tests.support.bench import bench
from rooflens.tests.support.rocprofv3_runs import writer

__all__ = ["bench", "writer"]
