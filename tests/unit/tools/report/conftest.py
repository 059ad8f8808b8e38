"""Small stores."""

from rooflens.tests.support.small_store import make_workload, store, workload

__all__ = ["make_workload", "store", "workload"]
