"""Here the start of children itself is tested."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fresh_interpreters(as_users_have_it: None) -> None:
    """No copy stands in for a fresh interpreter."""
