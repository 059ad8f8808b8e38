"""Units of ncu become base units; a unit that is not known is never guessed."""

from __future__ import annotations

import pytest

from rooflens.tools.profiles.ncu.pages import scale


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("", 1), ("%", 1), ("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("usecond", 1e3), ("second", 1e9),
        ("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("Tbyte", 1e12), ("byte/s", 1), ("Tbyte/s", 1e12),
        ("Gbyte/second", 1e9), ("hz", 1), ("Mhz", 1e6), ("Ghz", 1e9), ("cycle/nsecond", 1e9), ("sector/ns", 1e9),
        ("sector/us", 1e6), ("inst/cycle", 1), ("Kbyte/block", 1e3), ("Kbyte/cycle", 1e3), ("%/Kbyte", 1e3),
        ("%/register", 1), ("register/thread", 1), ("byte/sector", 1), ("SM", 1), ("warp", 1), ("Kinst", 1e3),
    ],
)  # fmt: skip
def test_a_unit_has_its_factor_to_base_units(unit, factor):
    assert scale(unit) == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("unit", ["parsec", "Kparsec", "byte/parsec", "Xbyte", "byte/", "K", "mbyte"])
def test_an_unknown_unit_has_no_factor(unit):
    assert scale(unit) is None
