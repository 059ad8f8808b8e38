"""How the suite is collected; the fixtures of all tests are those of support/fixtures.py."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from rooflens.tests.support.fixtures import *  # noqa: F403

# Processes that tests start, hundreds of them, find modules and tests compiled, whatever this machine usually does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The same examples in every run, and nothing that depends on how fast they are made or tried; `make fuzz` draws anew.
settings.register_profile(
    "the same everywhere", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("the same everywhere")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are found without looking for garbage among them, then or later: a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_unconfigure() -> None:
    """At the end everything is let go, of which libraries make sure."""
    gc.unfreeze()
