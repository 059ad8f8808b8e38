"""JSON schemas of tools, as small as they can be: every client pays for them in tokens."""

from __future__ import annotations

from typing import Any

import pydantic

_SILENT = (
    "title", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "propertyNames",
)  # fmt: skip
"""Generated titles say nothing; what is out of bounds is refused with the bound when it happens."""
_NULL = {"type": "null"}


def parameters(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The input schema: no generated titles, optional values without null, unknown names refused but not mentioned.

    There is no output schema: a model reads the fields from the result itself.
    """
    compact: dict[str, Any] = _compact(model.model_json_schema())
    compact.pop("additionalProperties", None)
    return compact


def _compact(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_compact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept_fields = {k: _compact(v) for k, v in schema.items() if k not in _SILENT or _is_field(k, v)}
    choices = [c for c in kept_fields.get("anyOf", []) if c != _NULL]
    if len(choices) == 1:
        # An optional value is left out rather than given as null, which is accepted as well.
        del kept_fields["anyOf"]
        kept_fields |= choices[0]
    elif choices and all(set(c) <= {"type", "items"} for c in choices):
        # Of several types at most one has items, so that they can stand beside each other.
        del kept_fields["anyOf"]
        kept_fields |= {k: v for c in choices for k, v in c.items()} | {"type": [c["type"] for c in choices]}
    if "default" in kept_fields and (
        not kept_fields["default"] or kept_fields["default"] == next(iter(kept_fields.get("enum", [])), None)
    ):
        # Left out it is nothing (null, 0, false, empty), or the first of its choices.
        del kept_fields["default"]
    return kept_fields


def _is_field(name: str, schema: Any) -> bool:
    """Whether this is a parameter that happens to be called like a keyword."""
    return isinstance(schema, dict) and name != "propertyNames"
