"""Texts that name a tool only where it is offered: ``{{TOOL: words}}`` stands for the words, or for nothing."""

from __future__ import annotations

import re
from collections.abc import Collection

_PART = re.compile(r"\s?\{\{(\w+):(\s.*?)\}\}", re.DOTALL)


def offered_only(text: str, tools: Collection[str]) -> str:
    """``text`` without the parts that go with other tools than these."""
    return _PART.sub(lambda part: part[2].rstrip() if part[1] in tools else "", text)
