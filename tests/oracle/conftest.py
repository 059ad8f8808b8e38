"""A bench to import recorded folders on."""

from rooflens.tests.support.bench import bench, load_shared

__all__ = ["bench", "load_shared"]
