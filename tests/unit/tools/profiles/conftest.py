"""What tests of the readers share."""

from rooflens.tests.support.bench import bench, load_shared
from rooflens.tests.support.ncu_pages import raw_page, recorded

__all__ = ["bench", "load_shared", "raw_page", "recorded"]
