"""rooflens from Python: stores and workloads as objects, tables as pandas DataFrames, pictures as matplotlib figures.

>>> import rooflens
>>> store = rooflens.open()
>>> store["v1"].metrics("overview")
"""

from ..analysis.base.problems import Problem
from .calls import RunFailed
from .store import OpenStore, open, samples
from .workload import OpenWorkload

__all__ = ["OpenStore", "OpenWorkload", "Problem", "RunFailed", "open", "samples"]
