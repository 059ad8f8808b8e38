"""The catalogue's data files: the TOML files shipped here, of extensions, and of the folder in ROOFLENS_CATALOGUE.

Extensions (../base/extensions.py) name a Python package with such files. Its folder, and that in ROOFLENS_CATALOGUE,
have subfolders with the same names (FOLDERS). A file in them is added to the catalogue, or replaces the shipped file of
the same name.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import tomli

from ..base.extensions import CATALOGUE, Extension, extensions
from ..base.problems import BadInput

VARIABLE = "ROOFLENS_CATALOGUE"
FOLDERS = ("gpus", "metrics", "products", "rules", "work")
_SHIPPED = Path(__file__).parent
_CHECK = "Correct the file; CONTRIBUTING.md explains the keys"


class CatalogueModel(pydantic.BaseModel):
    """A frozen model that rejects unknown fields, so that a misspelt key in a data file is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=CatalogueModel)


@cache
def paths(folder: str) -> dict[str, Path]:
    """The files of one subfolder by their stems, sorted. Raises BadInput if ROOFLENS_CATALOGUE is not a folder."""
    folders = [_SHIPPED, *map(extension_folder, extensions(CATALOGUE))]
    if extra := os.environ.get(VARIABLE):
        folders.append(Path(extra))
        if not folders[-1].is_dir():
            raise BadInput(
                f"{VARIABLE} is not a folder", extra, "Set it to a folder that contains gpus, metrics, rules, ..."
            )
    stems = {path.stem: path for parent in folders for path in (parent / folder).glob("*.toml")}
    return dict(sorted(stems.items()))


def extension_folder(extension: Extension) -> Path:
    """The folder with the catalogue files of an extension. Raises BadInput if it does not name a package."""
    package = extension.load()
    if not (places := list(getattr(package, "__path__", []))):
        raise BadInput(
            f"The extension {extension.name} of the package {extension.package} has no catalogue files",
            f"{package!r} is not a Python package"[:200],
            "Its entry point must name a package with the folders gpus, metrics, rules, ...",
        )
    return Path(places[0])


def all_files() -> list[Path]:
    """All data files in use; cached results that are computed from the catalogue depend on their content."""
    return [path for folder in FOLDERS for path in paths(folder).values()]


def load(path: Path) -> dict[str, Any]:
    """The content of a data file. Raises BadInput if it is not valid TOML."""
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"The data file {path.name} is not valid TOML", str(error), _CHECK) from error


@cache
def documents(folder: str) -> dict[str, dict[str, Any]]:
    """The content of every file of one subfolder, by stem."""
    return {stem: load(path) for stem, path in paths(folder).items()}


def rule_entries(kind: str, model: type[Model], key: str = "name") -> list[Model]:
    """The entries of one kind in rules/*.toml. Raises BadInput for an invalid one, which it names by its ``key``."""
    stated = [e for document in documents("rules").values() for e in document.get(kind, [])]
    return [validate_entry(model, e, f"The {kind} {e.get(key)}") for e in stated]


def validate_entry(model: type[Model], entry: dict[str, Any], what: str) -> Model:
    """Validate an entry as ``model``. Raises BadInput with the entry (``what``) and the first wrong key."""
    try:
        return model.model_validate(entry)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{what} is not valid", f"{where}: {first['msg']}", _CHECK) from error
