"""A bench to import recorded folders on, and a machine with an AMD GPU that a stand-in plays."""

from rooflens.tests.support.amd_node import node
from rooflens.tests.support.bench import bench

__all__ = ["bench", "node"]
