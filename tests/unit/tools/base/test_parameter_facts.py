"""parameters.toml states descriptions and bounds of parameters that exist, each in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli

from rooflens.server.mcp.toolbox import TOOLS
from rooflens.tools.base import parameters

STATED: dict[str, dict[str, Any]] = tomli.loads(
    Path(parameters.__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
PARAMETERS = {tool.name: set(tool.arguments.model_fields) for tool in TOOLS}


def test_every_entry_belongs_to_a_parameter() -> None:
    assert STATED["all"].keys() <= set.union(*PARAMETERS.values())
    for tool, facts in STATED.items():
        assert tool == "all" or facts.keys() <= PARAMETERS[tool], tool


def test_every_parameter_is_described() -> None:
    for tool in TOOLS:
        for name, schema in tool.schemas.items():
            assert schema.get("description") or "enum" in str(schema) or schema.get("type") == "boolean", name
