"""The doubts of a workload: those that its manifest states, or what the codes of warnings tell in one from before."""

from __future__ import annotations

import re

from ..catalogue.targets import find_target
from .doubts import Doubt
from .manifest import Manifest


def manifest_doubts(manifest: Manifest) -> list[Doubt]:
    """The doubts of a manifest; of one that was written before these were kept, as far as its warnings' codes tell."""
    if manifest.doubts is not None:
        return manifest.doubts
    codes = dict.fromkeys(w.code for w in manifest.warnings)
    return [doubt for code in codes for doubt in _doubts_of_code(code, manifest)]


_AGAIN = "Import the profile again to see which figures it concerns"
_OLD_CHECKS: dict[str, tuple[str, str]] = {
    "all_zero": (".*", "a pass held zeros only"),
    "negative": (".*", "some counters are below zero"),
    "overflow": (".*", "some counters exceed 2^64"),
    "no_instructions": (".*", "some launches counted no instruction"),
    "waves_vs_grid": (r"SQ_WAVES|smsp?__warps_launched\.sum", "the waves counted are not those of the launch"),
    "clock": (
        r"GRBM_GUI_ACTIVE|(sm|smsp|gpc)__cycles_elapsed\..+|cycles|cpu-cycles",
        "more cycles were counted than the time holds",
    ),
    "accumulate_zero": (r".+_ACCUM", "the time integral of a level is zero"),
    "above_100": (r".+_hit_rate\.pct|.+\.(avg|sum)\.pct_of_peak_sustained_elapsed", "some shares exceed the whole"),
}
"""Code of a check -> the counters that it can doubt, and what it found."""


def _doubts_of_code(code: str, manifest: Manifest) -> list[Doubt]:
    target = find_target(manifest.arch)
    if code in _OLD_CHECKS:
        pattern, text = _OLD_CHECKS[code]
        counters = tuple(c for c in manifest.counters if re.fullmatch(pattern, c.partition("@")[0]))
        return [Doubt(code, f"{text}. {_AGAIN}", counters)] if counters else []
    if code == "replay_spread":
        return [Doubt(code, "durations differ between replays", times=manifest.vendor == "nvidia", across=True)]
    if code == "run_spread":
        return [Doubt(code, "the times of repeated runs differ", times=True)]
    if code == "dead_counter" and target:
        return [Doubt(code, f"{d.counter} may not have counted", (d.counter,)) for d in target.dead]
    known = [d for d in target.defect if d.code == code] if target else []
    return [Doubt(d.code, d.text, tuple(d.counters), d.times) for d in known]
