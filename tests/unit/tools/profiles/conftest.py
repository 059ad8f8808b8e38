"""What tests of the readers share."""

from rooflens.tests.support.bench import bench
from rooflens.tests.support.ncu_pages import raw_page, recorded

__all__ = ["bench", "raw_page", "recorded"]
