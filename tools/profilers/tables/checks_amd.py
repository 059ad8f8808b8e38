"""What looks wrong in profiles of AMD GPUs: waves, clocks, accumulators, and defects of known versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....analysis.catalogue.targets import described
from ....analysis.database import sql_name
from ....analysis.store import Manifest
from .checked import CLOCK_TOLERANCE, Tables

ALWAYS = {"GRBM_COUNT", "GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_BUSY_CYCLES", "SQ_CYCLES", "SQ_WAVE_CYCLES", "Wavefronts"}
"""Counters that count in any kernel."""
_ABSURD = 3
_WAVE = 64


def waves(tables: Tables) -> Iterator[str]:
    """SQ_WAVES against the launch: whole work-groups of whole waves."""
    if not tables.has("SQ_WAVES"):
        return
    wave = int(tables.manifest.facts.get("wave_size", _WAVE))
    groups = "ceil(d.grid / nullif(d.workgroup_size, 0))"
    wrong = f'abs("SQ_WAVES" - {groups} * ceil(d.workgroup_size / {wave})) > 0.5'
    bad, known = tables.ask(f"count(*) FILTER ({wrong}), count(*) FILTER ({wrong} IS NOT NULL)")
    if bad:
        yield (
            f"waves_vs_grid: In {bad:.0f} of {known:.0f} dispatches SQ_WAVES is not the number of waves "
            f"launched (work-groups x ceil(work-group / {wave})): counters and dispatches may not belong together."
        )


def clock(tables: Tables) -> Iterator[str]:
    """Cycles per time against the maximum clock."""
    highest_clock = tables.manifest.facts.get("max_sclk")
    if highest_clock is None or not tables.has("GRBM_GUI_ACTIVE"):
        return
    xcds = tables.manifest.facts.get("num_xcd", 1)
    rate = f'1000 * "GRBM_GUI_ACTIVE" / {xcds!r} / c.duration_ns'
    above = f"{rate} > {highest_clock * CLOCK_TOLERANCE!r}"
    bad, known, highest = tables.ask(f"count(*) FILTER ({above}), count({rate}), max({rate})")
    if bad:
        cause = (
            "these times are not of the same run, or wrong: do not trust rates"
            if highest > _ABSURD * highest_clock
            else "its cycles include the start and end of short kernels, so percentages per cycle are too low"
        )
        yield (
            f"clock: In {bad:.0f} of {known:.0f} dispatches GRBM_GUI_ACTIVE means more than the maximum clock of "
            f"{highest_clock:.0f} MHz (up to {highest:.0f} MHz): {cause}."
        )


def accumulated(tables: Tables) -> Iterator[str]:
    """Time integrals of level counters that are zero although waves ran."""
    names = [c for c in tables.merged.counters if c.endswith("_ACCUM") and "WAVES" in c]
    for name in names if tables.has("SQ_WAVES") else []:
        launched, integral = tables.ask(f'sum("SQ_WAVES"), sum({sql_name(name)})')
        if launched and not integral:
            yield (
                f"accumulate_zero: {name} is zero although waves ran: this profiler did not collect it, "
                "so occupancy and latencies from it mean nothing."
            )


def known_defects(manifest: Manifest) -> Iterator[str]:
    """Versions of AMD's tools that are known to write wrong values."""
    release = tuple(int(n) for n in re.findall(r"\d+", (manifest.tool_version or "").split("-")[0])[:3])
    target = described(manifest.arch)
    for defect in target.defect if target else []:
        if defect.concerns(release):
            yield f"{defect.code}: {defect.text}"


CHECKS = (waves, clock, accumulated)
