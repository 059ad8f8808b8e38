"""The check on devices that are played: the catalogue as it is holds, and every planted error is found and named."""

from __future__ import annotations

import csv
from collections.abc import Callable

import pytest

from rooflens.tests import DATA
from rooflens.tests.unit.tools.device.counter_check.conftest import Plant, Played


@pytest.mark.parametrize(("target", "least"), [("gfx950", 155), ("sm_90", 145)])
def test_the_catalogue_as_it_is_holds_on_a_device_that_counts_as_documented(
    target: str, least: int, played: Callable[[str], Played]
) -> None:
    found = played(target).judgements()
    off = {name: (one.representative, one.cause) for name, one in found.items() if one.verdict == "off"}
    assert off == {}
    assert sum(one.verdict == "holds" for one in found.values()) >= least
    assert all(one.cause for one in found.values() if one.verdict == "not_determined")


with (DATA / "planted_errors.csv").open() as file:
    ERRORS = list(csv.DictReader(file))
"""What is planted instead of which text, the metric that is wrong then, and its factor where it is one."""


@pytest.mark.parametrize("target", ["gfx90a", "sm_90"])
def test_every_planted_error_is_found_and_a_plain_factor_is_named(
    target: str, played: Callable[[str], Played], planted: Plant
) -> None:
    errors = [row for row in ERRORS if row["target"] == target]
    texts: dict[str, list[tuple[str, str]]] = {}
    for row in errors:
        texts.setdefault(row["file"], []).append((row["text"], row["planted"]))
    planted(texts)
    found = played(target).judgements()
    assert [row["metric"] for row in errors if found[row["metric"]].verdict != "off"] == []
    factors = {row["metric"]: float(row["factor"]) for row in errors if row["factor"]}
    assert {metric: found[metric].factor for metric in factors} == pytest.approx(factors, rel=0.02)
    assert all(found[row["metric"]].cause for row in errors)


def test_dies_that_are_not_divided_by_and_the_formula_of_an_older_generation_are_found(
    played: Callable[[str], Played], planted: Plant
) -> None:
    """The formula is what the profilers of ROCm up to 7.2 did on MI350: half of the bytes."""
    new = '"128 * TCC_EA_RDREQ_128B_sum + 64 * TCC_EA_RDREQ_64B_sum + 32 * TCC_EA_RDREQ_32B_sum"'
    old = '"128 * TCC_BUBBLE_sum + 64 * (TCC_EA_RDREQ_sum - TCC_BUBBLE_sum - TCC_EA_RDREQ_32B_sum)"'
    whole = 'gui = "GRBM_GUI_ACTIVE / num_xcd"'
    planted({"cdna_00_terms.toml": [(whole, 'gui = "GRBM_GUI_ACTIVE"'), (new, old)]})
    found = played("gfx942").judgements()
    cycles = found["dispatch.gpu_cycles"]
    assert (cycles.verdict, cycles.factor) == ("off", pytest.approx(8, rel=0.02)) and "XCD" in cycles.cause
    assert found["occupancy.waves"].verdict == "off"
    read = played("gfx950").judgements()["fabric.read_bw_gbs"]
    assert (read.verdict, read.factor) == ("off", pytest.approx(0.5, rel=0.02))
