"""What a recording of the host's stacks cannot say: codes of warnings, which answers about the host repeat in words."""

from __future__ import annotations

from pathlib import Path

import tomli

from ..workload import Workload

LIMITS: dict[str, str] = tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Text by code; ``{source}`` is the program that recorded the stacks."""


_UNTIMED = {"host_no_times", "host_clock_unknown"}


def host_limits(workload: Workload) -> list[str]:
    """Return what the recordings of a workload cannot say about the host.

    Without samples on the clock of the timeline, code is known from the calls that torch.profiler recorded, if any.
    """
    stated = [warning for warning in workload.manifest.warnings if warning.code in LIMITS]
    texts = [warning.text for warning in stated]
    sampled = workload.has("host_samples") and _UNTIMED.isdisjoint(warning.code for warning in stated)
    if not sampled and workload.has("ranges"):
        calls = f"SELECT 1 FROM {workload.relation('ranges')} WHERE source = 'python' LIMIT 1"
        texts += [LIMITS["host_first_lines"].format(source="torch.profiler") for _ in workload.rows(calls)]
    return texts
