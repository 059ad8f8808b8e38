"""rooflens from Python: stores and workloads as objects, tables as pandas DataFrames, pictures as matplotlib figures.

>>> import rooflens
>>> store = rooflens.open()
>>> store["v1"].metrics("overview").df()
"""

from ..analysis.base.problems import Problem
from .calls import RunFailed
from .store import OpenStore, OpenWorkload, open, samples

__all__ = ["OpenStore", "OpenWorkload", "Problem", "RunFailed", "open", "samples"]
