"""What most calls need, loaded once so that no child has to: in short steps, and without leaving a thread."""

from __future__ import annotations

from functools import cache

from ...analysis.base import database
from ...analysis.catalogue import files, formula, rules, targets, work_formulas
from ...analysis.catalogue import metrics as catalog
from ...analysis.comparison import work as differences
from ...analysis.store.schema import schema
from ...tools.base import arguments
from ...tools.isolation.fork_server import ForkServer
from ...tools.sql import sources, worker
from . import toolbox


def import_duckdb() -> None:
    """The library of every question."""
    import duckdb  # noqa: F401


def open_databases() -> None:
    """Ours and that of a client's SQL."""
    database.open_without_threads()
    worker.prepare()


def parse_amd() -> None:
    """The catalogue's expressions for AMD GPUs, which DuckDB parses."""
    _parse("amd")


def parse_others() -> None:
    """Those for NVIDIA GPUs and CPUs."""
    _parse("nvidia", "cpu")


def _parse(*vendors: str) -> None:
    for target in catalog.targets_with_metrics():
        if targets.gpu(target).vendor in vendors:
            catalog.parse_all(target)
            rules.rules(target)


def read_catalogue() -> None:
    """What stands in files beside the code."""
    schema()
    targets.products()
    sources.digest()
    for target in catalog.targets_with_metrics():
        differences.target_quantities(target)
        if (name := targets.gpu(target).family) in files.paths("work"):
            stated = work_formulas.work_formulas(name, target)
            formula.references(
                [*work_formulas.formulas(target).values(), *(c for b in stated.bounds for c in b.ceiling)]
            )


def make_schemas() -> None:
    """What arguments are checked against, where the server has not made it yet."""
    for tool in toolbox.TOOLS:
        arguments.prepare(tool.arguments)


def import_numpy() -> None:
    """Quantiles, and what pictures need."""
    import numpy  # noqa: F401


def import_matplotlib() -> None:
    """Pictures."""
    import matplotlib.figure  # noqa: F401


def import_backends() -> None:
    """PNG and SVG."""
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg  # noqa: F401


STEPS = (
    import_duckdb,
    open_databases,
    parse_amd,
    parse_others,
    make_schemas,
    read_catalogue,
    import_numpy,
    import_matplotlib,
    import_backends,
)
"""In the order of need."""


@cache
def shared_fork_server() -> ForkServer:
    """The process that serves every server built inside another program: it starts with the first call of any."""
    return ForkServer(STEPS)
