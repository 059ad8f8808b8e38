"""Names of counters: old and new ones mean the same counter, and nothing else does."""

from __future__ import annotations

import pytest

from rooflens.analysis.catalogue.counter_names import canonical, names, other_names, spelling


@pytest.mark.parametrize(
    ("target", "first", "second"),
    [
        ("gfx908", "TCC_EA_RDREQ_sum", "TCC_EA0_RDREQ_sum"),
        ("gfx90a", "TCC_EA_WRREQ_sum", "TCC_EA0_WRREQ_sum"),
        ("gfx942", "TCC_EA0_RDREQ_sum", "TCC_EA_RDREQ_sum"),
    ],
)
def test_a_formula_reads_the_counter_under_either_name_and_a_plan_asks_for_the_targets(target, first, second) -> None:
    formula = first.replace("EA0", "EA")
    assert names(target, formula) == (first, second) and spelling(target, formula) == first
    assert other_names(target, first) == (second,) and other_names(target, second) == (first,)
    assert canonical(target, first) == canonical(target, second) == first


def test_the_integral_of_a_level_answers_to_what_older_profilers_call_it() -> None:
    assert other_names("gfx90a", "SQ_LEVEL_WAVES_ACCUM") == ("SQ_ACCUM_PREV_HIRES@SQ_LEVEL_WAVES",)
    assert canonical("gfx90a", "SQ_ACCUM_PREV_HIRES@SQ_IFETCH_LEVEL") == "SQ_IFETCH_LEVEL_ACCUM"


def test_other_counters_and_unknown_targets_have_no_further_names() -> None:
    assert names("gfx942", "TCC_HIT_sum") == ("TCC_HIT_sum",) and other_names("gfx942", "TCC_HIT_sum") == ()
    assert other_names(None, "TCC_EA_RDREQ_sum") == other_names("gfx000", "TCC_EA_RDREQ_sum") == ()
    assert other_names("gfx908", "TCC_EA_") == ()
