"""What tests of the readers share: a bench, pages of ncu, runs of rocprofv3 and the schema of a real database."""

from rooflens.tests.support.bench import bench
from rooflens.tests.support.ncu_pages import raw_page, recorded
from rooflens.tests.support.rocprofv3_runs import amd_schema, writer

__all__ = ["amd_schema", "bench", "raw_page", "recorded", "writer"]
