"""rooflens from Python: stores and workloads as objects, tables as pandas DataFrames, pictures as matplotlib figures.

>>> import rooflens
>>> store = rooflens.open()
>>> store["v1"].metrics("overview")
"""

from ..analysis.base.problems import Problem
from .failures import RunFailed
from .opening import open
from .shipped import samples
from .store import OpenStore
from .workload import OpenWorkload

__all__ = ["OpenStore", "OpenWorkload", "Problem", "RunFailed", "open", "samples"]
