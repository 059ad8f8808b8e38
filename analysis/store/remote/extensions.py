"""The DuckDB extensions that a catalogue needs: installed by DuckDB, from a package, or downloaded if allowed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.database import sql_literal
from ...base.extensions import install_command, packages_of
from ...base.problems import Problem, command_advice
from ..wording import problem

if TYPE_CHECKING:
    import duckdb

INSTALL = "ROOFLENS_INSTALL_EXTENSIONS"
"""The environment variable that allows DuckDB to download extensions from its own server."""
_PACKAGED = "1.5.5"
"""The version of DuckDB for which packages with these extensions exist."""


def load(con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Load extensions into a connection. Raises MissingTool with the install command if one is missing."""
    import duckdb

    for name in names:
        try:
            con.execute(f"LOAD {name}")
            continue
        except duckdb.Error:
            pass
        if packaged := _packaged_file(name):
            con.execute(f"LOAD {sql_literal(str(packaged))}")
            continue
        if os.environ.get(INSTALL) != "1":
            raise _missing(name)
        try:
            con.execute(f"INSTALL {name}")
            con.execute(f"LOAD {name}")
        except duckdb.Error as error:
            raise _missing(name, "DuckDB could not download it") from error


def _packaged_file(name: str) -> Path | None:
    """The file of an extension in a package built for this version of DuckDB, or None."""
    import duckdb

    package = find_spec(f"duckdb_extension_{name}")
    for folder in (package.submodule_search_locations or ()) if package else ():
        file = Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
        if file.is_file():
            return file
    return None


def _missing(name: str, why: str = "it is not installed") -> Problem:
    import duckdb

    version = duckdb.__version__
    words = f"Set {INSTALL}=1 to let DuckDB download it from its own server, or install it with DuckDB {_PACKAGED}"
    advice = command_advice(words, install_command(*packages_of("team")))
    return problem("missing_extension", name=name, version=version, why=why, advice=advice)
