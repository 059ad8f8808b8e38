"""Runs to write, and the schema of a real database."""

from rooflens.tests.support.rocprofv3_runs import amd_schema, writer

__all__ = ["amd_schema", "writer"]
