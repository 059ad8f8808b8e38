"""The digits of figures in answers, which are declared with the field that holds a figure."""

from __future__ import annotations

from typing import Any

import pydantic

STORED = "stored"
"""The context in which pydantic writes values that are read again: with all digits and all fields."""


def digits(form: str) -> pydantic.PlainSerializer:
    """Return the annotation of a float that answers show as ``form`` states, such as ``.3g`` or ``.1f``; None stays.

    ``.0f`` gives whole numbers.
    """

    def round_figure(value: float | None, info: pydantic.SerializationInfo) -> Any:
        if value is None or info.context == STORED:
            return value
        return round(value) if form == ".0f" else float(format(value, form))

    return pydantic.PlainSerializer(round_figure)
