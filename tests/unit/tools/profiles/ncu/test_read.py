"""The raw page of a recorded run gives its numbers in base units, under ncu's own names."""

from __future__ import annotations

import csv

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.support.bench import Bench
from rooflens.tools.profiles.ncu.pages import number, scale


@pytest.fixture(scope="module")
def page(recorded, tmp_path_factory):
    """A bench, and the raw page of the recorded run, imported on it."""
    bench = Bench(tmp_path_factory.mktemp("page"))
    return bench, bench.load(recorded / "small_raw.csv")


def table(bench, done):
    """{counter: values by launch} of everything stored."""
    names = bench.manifest(done).counters
    columns = ", ".join('"' + name + '"' for name in names)
    return dict(zip(names, zip(*bench.rows(done, "counters", columns), strict=True), strict=True))


def test_every_number_of_the_raw_page_is_stored(page, recorded):
    found = table(*page)
    with (recorded / "small_raw.csv").open(newline="") as file:
        header, units, *rows = csv.reader(file)
    checked = 0
    for i, (name, unit) in enumerate(zip(header, units, strict=True)):
        values = [number(row[i]) for row in rows]
        if i < 11 or name.startswith("device__") or all(v is None or v != v for v in values):
            continue
        wanted = [None if v is None or v != v else v * scale(unit) for v in values]
        assert list(found[name]) == pytest.approx(wanted, rel=1e-12), name
        checked += 1
    assert checked == len(found) > 900


@pytest.mark.parametrize("part", [0.3, 0.999])
def test_a_page_that_ends_early_is_refused(bench, recorded, tmp_path, part):
    name = "small_raw.csv"
    text = (recorded / name).read_bytes()
    (tmp_path / name).write_bytes(text[: int(part * len(text))])
    with pytest.raises(BadInput, match=r"is damaged|contains no launches"):
        bench.load(tmp_path / name)
    assert bench.is_clean()


@pytest.mark.parametrize(("length", "why"), [(8 << 20, "line of more than"), (1 << 18, "larger than field limit")])
def test_an_endless_line_is_refused(bench, tmp_path, length, why):
    (tmp_path / "p.csv").write_bytes(b'"ID","Process ID","Kernel Name"\n"1","2","' + b"x" * length + b'"\n')
    with pytest.raises(BadInput, match=why):
        bench.load(tmp_path / "p.csv")


def test_what_is_counted_beside_a_share_above_the_whole_is_not_said_to_exceed_it(bench, raw_page):
    metrics = {"lts__t_sector_hit_rate.pct": ("%", [140]), "lts__t_sectors_srcunit_tex.sum": ("sector", [0])}
    done = bench.load(raw_page({"gpu__time_duration.sum": ("ns", [1000]), **metrics}))
    assert not [n for n in done.notes if "rounded" in n], "zeros in base units are not"
    manifest = bench.manifest(done)
    of = {counter: doubt.text for doubt in manifest.doubts for counter in doubt.counters}
    assert "exceeds 100 %" in of["lts__t_sector_hit_rate.pct"]
    assert "counted with" in of["lts__t_sectors_srcunit_tex.sum"]


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
