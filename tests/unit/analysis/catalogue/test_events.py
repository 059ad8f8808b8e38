"""Counter names tell the block and the registers that a counter takes."""

from __future__ import annotations

import pytest

from rooflens.analysis.catalogue.counter_names import block_of, events_of, in_total, level_of, per_instance


@pytest.mark.parametrize(
    ("counter", "block"),
    [
        ("SQ_WAVES", "SQ"),
        ("SQC_DCACHE_REQ_READ_16", "SQ"),
        ("TCC_HIT[*]", "TCC"),
        ("TA_BUSY_avr", "TA"),
        ("GL1C_GL2_REQ_READ_128B_sum", "GL1C"),
        ("GCEA_SARB_BUSY_sum", "GCEA"),
        ("Wavefronts", None),
        ("sm__cycles_elapsed.max", None),
        ("branch-misses", None),
        ("duration_ns", None),
    ],
)
def test_a_counter_is_counted_in_the_registers_of_its_block(counter: str, block: str | None) -> None:
    assert block_of(counter) == block


def test_a_total_and_the_figures_of_all_instances_are_one_event() -> None:
    assert {events_of(name) for name in ("TCC_HIT_sum", "TCC_HIT[*]", "TCC_HIT[3]", "TCC_HIT")} == {("TCC_HIT",)}
    assert events_of("TCP_TCP_LATENCY_sum") == ("TCP_TCP_LATENCY",)


def test_totals_of_the_sequencer_on_rdna_are_one_event_too_but_nobody_completes_its_names() -> None:
    names = ("SQ_BUSY_CYCLES", "SQ_BUSY_CYCLES_sum", "SQ_BUSY_CYCLES_avr")
    assert {events_of(name) for name in names} == {("SQ_BUSY_CYCLES",)}
    assert per_instance("SQ_WAVES") == in_total("SQ_WAVES") == "SQ_WAVES"


def test_an_integral_takes_a_register_for_its_level_too() -> None:
    assert events_of("SQ_LEVEL_WAVES_ACCUM") == ("SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES_ACCUM")
    assert level_of("SQC_DCACHE_INFLIGHT_LEVEL_ACCUM") == "SQC_DCACHE_INFLIGHT_LEVEL"


def test_what_is_no_level_of_the_sequencer_has_no_integral() -> None:
    assert [level_of(c) for c in ("SQ_LEVEL_WAVES", "SQ_WAVES_ACCUM", "TCC_EA_RDREQ_LEVEL_sum")] == [None] * 3


def test_names_are_completed_to_a_total_or_to_every_instance() -> None:
    assert (in_total("TCC_HIT"), in_total("TCC_HIT_sum"), in_total("TCC_HIT[7]")) == (
        "TCC_HIT_sum", "TCC_HIT_sum", "TCC_HIT[*]",
    )  # fmt: skip
    assert (per_instance("TCC_HIT"), per_instance("TCC_HIT_sum")) == ("TCC_HIT[*]", "TCC_HIT_sum")
