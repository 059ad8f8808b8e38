"""Spoilt profiles of the formats whose way to read another format has in tests/system/fuzz."""

from __future__ import annotations

import pytest

from rooflens.tests.fuzz.profiles import READERS
from rooflens.tests.system.fuzz.test_readers import ONE_OF_EACH, check_reader


@pytest.mark.parametrize("reader", sorted(READERS.keys() - set(ONE_OF_EACH)))
def test_a_spoilt_profile_is_read_or_refused_in_words(reader: str) -> None:
    check_reader(reader)
