"""A bench to import recorded folders on."""

from rooflens.tests.support.bench import bench

__all__ = ["bench"]
