"""Here the start of children itself is tested."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def as_users_have_it(fresh_interpreters: None) -> None:
    """No copy stands in for a fresh interpreter."""
