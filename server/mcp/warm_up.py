"""Load what most calls need once, before children are forked, in short steps and without starting threads."""

from __future__ import annotations

from functools import cache

from ...analysis.base import database
from ...analysis.catalogue import files, formula, rules, targets, work_formulas
from ...analysis.catalogue import metrics as catalog
from ...analysis.comparison import work as differences
from ...analysis.tables import schema
from ...analysis.tables.derived import digest
from ...tools.base import arguments
from ...tools.isolation.fork_server import ForkServer
from ...tools.sql import worker
from . import toolbox


def import_duckdb() -> None:
    """Load the database library."""
    import duckdb  # noqa: F401


def open_databases() -> None:
    """Load our tables and the SQL sandbox."""
    database.open_without_threads()
    worker.prepare()


def parse_amd() -> None:
    """Parse the catalogue's expressions for AMD GPUs with DuckDB."""
    _parse("amd")


def parse_others() -> None:
    """Parse those for NVIDIA GPUs and CPUs."""
    _parse("nvidia", "cpu")


def _parse(*vendors: str) -> None:
    for target in catalog.targets_with_metrics():
        if targets.gpu(target).vendor in vendors:
            catalog.parse_all(target)
            rules.rules(target)


def read_catalogue() -> None:
    """Read the data files of the package."""
    schema()
    targets.products()
    digest()
    for target in catalog.targets_with_metrics():
        differences.target_quantities(target)
        if targets.gpu(target).family in files.paths("work"):
            stated = work_formulas.work_formulas(target)
            formula.references(
                [*work_formulas.formulas(target).values(), *(c for b in stated.bounds for c in b.ceiling)]
            )


def import_tools() -> None:
    """Import the modules of all tools, if the server has not imported them yet."""
    toolbox.functions()


def make_schemas() -> None:
    """Build the models of the arguments, if the server has not built them yet."""
    for tool in toolbox.TOOLS:
        arguments.prepare(tool.arguments)


def import_numpy() -> None:
    """Load the libraries for quantiles and pictures."""
    import numpy  # noqa: F401


def import_matplotlib() -> None:
    """Pictures."""
    import matplotlib.figure  # noqa: F401


def import_backends() -> None:
    """PNG and SVG."""
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg  # noqa: F401


STEPS = (
    import_tools,
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
"""The steps in the order in which calls need them."""


@cache
def shared_fork_server() -> ForkServer:
    """The fork server for all servers inside another program; it is started with the first call."""
    return ForkServer(STEPS)
