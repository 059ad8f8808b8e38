"""Data that modules state in TOML files beside them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import tomli


@cache
def module_data(module: str, name: str = "") -> dict[str, Any]:
    """Return the content of the file ``name`` in the folder of a module, by default the file with the module's name."""
    file = Path(module).with_name(name) if name else Path(module).with_suffix(".toml")
    return tomli.loads(file.read_text(encoding="utf-8"))
