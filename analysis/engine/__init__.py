"""The metric engine: formulas over the counters of a workload, evaluated in DuckDB."""

from .evaluation import evaluate as evaluate
