"""What is said beside measured ceilings."""

from __future__ import annotations

from rooflens.tools.device.benchmarks import outcomes

ROW = {"ceiling": "hbm.read", "status": "ok", "value": None, "intensity": None}


def test_a_run_that_failed_before_its_first_kernel_counts_none() -> None:
    assert outcomes.notes([], "functional") == []
    assert outcomes.notes([ROW], "functional") == ["1 of 1 kernel gave the right result; nothing was timed or stored."]


def test_what_compiled_the_kernels_is_told_once() -> None:
    made = "clang (/usr/bin/clang-22), code objects of version 4, HIP 5.2.21153"
    said = outcomes.notes([{**ROW, "compiler": made}, {**ROW, "ceiling": "hbm.copy", "compiler": made}], "functional")
    assert said[1:] == [f"Kernels compiled by {made}."]
