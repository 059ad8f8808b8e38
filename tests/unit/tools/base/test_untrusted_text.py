"""Text of profiles on one line."""

from __future__ import annotations

from rooflens.tools.base.untrusted_text import plain_text


def test_text_is_cut_to_its_limit() -> None:
    assert plain_text("x" * 30, 10) == "x" * 7 + "..." and plain_text("x" * 10, 10) == "x" * 10
