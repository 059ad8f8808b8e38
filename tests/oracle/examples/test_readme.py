"""What the README of the example program says of its kernels is what rooflens calls these limits."""

from __future__ import annotations

import re

from rooflens.analysis.catalogue import metrics
from rooflens.tests.oracle.examples.conftest import SOURCES


def test_every_limit_of_a_kernel_is_a_subsystem() -> None:
    kernels = re.findall(r"^\| `\w+` \| ([\w.]+(?:\\\|[\w.]+)*) \|", (SOURCES / "README.md").read_text(), re.MULTILINE)
    limits = {limit for stated in kernels for limit in stated.split("\\|")}
    assert len(kernels) > 40
    assert limits <= set(metrics.SUBSYSTEMS)
