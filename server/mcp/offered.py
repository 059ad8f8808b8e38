"""Texts that name a tool only where it is offered: ``{{TOOL: words}}`` stands for the words, or for nothing.

``{{!TOOL: words}}`` is the other way round: what to do without the tool. The words go on with the line before, unless
they begin with a line of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_PART = re.compile(r"[^\S\n]*\n?[^\S\n]*\{\{(!?)(\w+):(\s.*?)\}\}", re.DOTALL)


def offered_only(text: str, tools: Collection[str]) -> str:
    """``text`` without the parts that go with other tools than these."""
    return _PART.sub(lambda part: part[3].rstrip() if (part[2] in tools) != bool(part[1]) else "", text)
