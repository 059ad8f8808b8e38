"""The surroundings of one import: a private database with bounded memory, and errors of data and disk as Problems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput, LimitExceeded
from ...analysis.store import write_problem
from .names import plain_text

if TYPE_CHECKING:
    import duckdb

WORK = "work"
"""Sub-folder of a draft for what is not published: staged files and what the database spills."""
_MEMORY = "1200MB"


@contextmanager
def readable(source: Path) -> Iterator[None]:
    """Turn a refusal of the file system to show part of the profile into BadInput."""
    try:
        yield
    except PermissionError as error:
        named = Path(error.filename or source).name
        raise BadInput(f"{named} cannot be read", error.strerror or str(error), "Check its permissions") from error


@contextmanager
def database(source: Path, work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A private database with bounded memory that spills into ``work``; what data and machine do to it are Problems."""
    import duckdb

    con = duckdb.connect(config={"temp_directory": str(work / "spill"), "autoload_known_extensions": "false"})
    try:
        con.execute(f"SET memory_limit = '{_MEMORY}'; SET threads = 2; SET preserve_insertion_order = true")
        yield con
    except duckdb.OutOfMemoryException as error:
        raise write_problem(work / "spill", error) or LimitExceeded(
            f"{source.name} needs more than {_MEMORY} to import",
            "it has too many columns or kernels",
            "Import less of it",
        ) from error
    except (duckdb.IOException, duckdb.DataError) as error:
        raise write_problem(work / "spill", error) or BadInput(
            f"{source.name} could not be imported", plain_text(str(error).splitlines()[0], 200)
        ) from error
    finally:
        con.close()
