"""What the README of the example program says of its kernels is what rooflens calls these limits."""

from __future__ import annotations

import re

from rooflens.analysis.catalogue import metrics

from .conftest import SOURCES


def test_every_limit_of_a_kernel_is_a_subsystem() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:\\\||[^|])+) \|", (SOURCES / "README.md").read_text(), re.MULTILINE)
    limits = {limit for _, stated in rows for limit in stated.strip().split("\\|")}
    assert len(rows) > 40
    assert limits <= set(metrics.SUBSYSTEMS)
