"""Units of ncu become base units; a unit that is not known is never guessed."""

from __future__ import annotations

import csv

import pytest

from rooflens.tools.profiles.ncu.pages import number, scale


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


@pytest.mark.parametrize(
    ("cell", "value"),
    [("2,230", 2230.0), ("976,994.36", 976994.36), ("0", 0.0), ("-0.5", -0.5), ("1.5e3", 1500.0),
     ("12 (5; 7)", 12.0), ("4,096 (0: 4,000; 1: 96)", 4096.0)],
)  # fmt: skip
def test_a_cell_is_read_with_separators_and_without_its_instances(cell, value):
    assert number(cell) == value


@pytest.mark.parametrize("cell", ["", "n/a", "all", "(1; 2)", "PolicySpread"])
def test_text_is_no_number(cell):
    assert number(cell) is None


def test_every_unit_of_the_recorded_page_is_known(recorded):
    with (recorded / "small_raw.csv").open(newline="") as file:
        units = set(list(csv.reader(file))[1])
    assert units and not {u for u in units if scale(u) is None}


def test_every_unit_of_the_full_recording_is_known(shared):
    with (shared / "ncu" / "h200_labelled_raw.csv").open(newline="") as file:
        units = list(csv.reader(file))[1]
    assert len(set(units)) > 30 and not {u for u in units if scale(u) is None}
