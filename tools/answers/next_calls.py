"""Calls that an answer suggests, written like calls."""

from __future__ import annotations

from typing import Any

from ..base.results import NextCall


def next_call(tool: str, why: str, /, **arguments: Any) -> NextCall:
    """Return the suggestion to call ``tool`` with these arguments."""
    return NextCall(tool=tool, arguments=arguments, why=why)
