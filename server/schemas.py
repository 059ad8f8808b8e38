"""JSON schemas of tools, as small as they can be: every client pays for them in tokens."""

from __future__ import annotations

from typing import Any

import pydantic

_SILENT = ("title", "minimum", "maximum")
"""Generated titles say nothing; a number out of range is refused with the range when it happens."""


def parameters(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The input schema: no generated titles, and optional values as a list of types."""
    compact: dict[str, Any] = _compact(model.model_json_schema())
    return compact


def output(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The output schema: which fields are always there; a model reads the rest from the result itself."""
    always = [name for name, field in model.model_fields.items() if field.is_required()]
    return {"type": "object", "required": always}


def _compact(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_compact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {k: _compact(v) for k, v in schema.items() if not (k in _SILENT and not isinstance(v, dict))}
    choices = found.get("anyOf")
    if choices and all(set(c) == {"type"} for c in choices):
        del found["anyOf"]
        found["type"] = [c["type"] for c in choices]
    if found.get("default", ...) is None:
        del found["default"]
    return found
