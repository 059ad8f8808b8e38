"""Names and tags of workloads, as callers give them."""

from __future__ import annotations

from ...analysis.base.problems import BadArgument
from .untrusted_text import plain_text

NAME_LIMIT, TAG_LIMIT = 120, 32
"""Characters of a name or tag, and tags of a workload."""


def checked_labels(name: str | None, tags: list[str] | None) -> tuple[str | None, list[str]]:
    """Name and tags as the caller gave them, without spaces around; BadArgument for one that cannot be used."""
    shown = _check_label(name, "name") if name is not None else None
    return shown, [_check_label(t, "tag") for t in (tags or [])[:TAG_LIMIT]]


def _check_label(text: str, kind: str) -> str:
    """A name or tag given by the caller; BadArgument where it could not be shown or found again."""
    if not text.strip() or len(text) > NAME_LIMIT or plain_text(text, NAME_LIMIT) != text.strip():
        raise BadArgument(
            f"The {kind} {plain_text(text, 40)!r} cannot be used",
            f"it must be visible text of at most {NAME_LIMIT} characters",
        )
    if text.strip() == "latest":
        raise BadArgument(f"The {kind} 'latest' cannot be used", "it stands for the newest workload")
    return text.strip()
