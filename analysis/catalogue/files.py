"""The catalogue's data files: the TOML that is shipped here, and that of a folder which ROOFLENS_CATALOGUE names.

Such a folder has subfolders of the same names (FOLDERS). A file in them is added to the
catalogue, or takes the place of the shipped file with its name.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from ..base.problems import BadInput

VARIABLE = "ROOFLENS_CATALOGUE"
FOLDERS = ("gpus", "metrics", "products", "rules", "work")
_SHIPPED = Path(__file__).parent
_CHECK = "Correct the file; CONTRIBUTING.md explains the keys"


class CatalogueModel(pydantic.BaseModel):
    """A frozen model that refuses fields it does not know: a misspelt key in a data file is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=CatalogueModel)


@cache
def paths(folder: str) -> dict[str, Path]:
    """The files of one subfolder by their stems, in order. Raises BadInput where ROOFLENS_CATALOGUE is no folder."""
    folders = [_SHIPPED]
    if extra := os.environ.get(VARIABLE):
        folders.append(Path(extra))
        if not folders[-1].is_dir():
            raise BadInput(f"{VARIABLE} names no folder", extra, "Name a folder with gpus, metrics, rules, ... in it")
    stems = {path.stem: path for parent in folders for path in (parent / folder).glob("*.toml")}
    return dict(sorted(stems.items()))


def all_files() -> list[Path]:
    """All data files in use: what is computed from the catalogue and kept depends on their content."""
    return [path for folder in FOLDERS for path in paths(folder).values()]


def load(path: Path) -> dict[str, Any]:
    """A data file. Raises BadInput where it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"The data file {path.name} is no TOML", str(error), _CHECK) from error


@cache
def documents(folder: str) -> dict[str, dict[str, Any]]:
    """The content of every file of one subfolder, by stem."""
    return {stem: load(path) for stem, path in paths(folder).items()}


def validate_entry(model: type[Model], entry: dict[str, Any], what: str) -> Model:
    """An entry as ``model``. Raises BadInput that names the entry (``what``) and the first wrong key."""
    try:
        return model.model_validate(entry)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{what} is not as it should be", f"{where}: {first['msg']}", _CHECK) from error
