"""Runs to write, and a bench to import them on."""

from rooflens.tests.support.bench import bench
from rooflens.tests.support.ncu_pages import recorded
from rooflens.tests.support.rocprofv3_runs import amd_schema, writer

__all__ = ["amd_schema", "bench", "recorded", "writer"]
