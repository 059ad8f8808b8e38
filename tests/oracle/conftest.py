"""A bench to import recorded folders on, runs to write, and a machine with an AMD GPU that a stand-in plays."""

from rooflens.tests.support.amd_node import node
from rooflens.tests.support.bench import bench
from rooflens.tests.support.rocprofv3_runs import writer

__all__ = ["bench", "node", "writer"]
