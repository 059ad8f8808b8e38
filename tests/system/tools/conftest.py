"""Small stores, and a machine with an AMD GPU that stand-ins play."""

from rooflens.tests.support.amd_node import node
from rooflens.tests.support.small_store import make_workload, store, workload

__all__ = ["make_workload", "node", "store", "workload"]
