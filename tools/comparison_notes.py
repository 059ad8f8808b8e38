"""What a comparison comes down to, in words: the summary, what to beware of, and what to call next."""

from __future__ import annotations

from ..analysis.comparison.compare import Compared, Comparison
from ..analysis.comparison.effect import ENOUGH
from .comparison_tables import short, traffic
from .results import NextCall

_TRAFFIC = 1.05
_APART = 1.1
_DRIFT_SHARE = 0.005


def summary(found: Comparison, first: Compared | None) -> str:
    """The verdict of the pair that takes most time, in one or two sentences."""
    if first is None:
        return "No kernel of one workload has a counterpart in the other."
    name, e = short(first.pair.label), first.effect
    if e is None:
        return f"{name}: {first.verdict}, {first.why}."
    if found.other_gpu is not None:
        return f"{name}: {first.why}. The table normalised holds each against its own ceilings."
    interval = f" (95 % interval {e.low:.3f} to {e.high:.3f})" if e.low is not None and e.high is not None else ""
    time = f"{e.baseline_ns / 1e6:.4g} ms -> {e.candidate_ns / 1e6:.4g} ms, speed-up x {e.speedup:.3f}{interval}"
    if first.work.answer == "no":
        return f"{name}: not like for like. {time} in time, but {first.work.why}. {per_unit(first)}"
    if first.work.answer == "yes":
        return f"{name}: {first.verdict}, {time}; {first.why}. Same work: {first.work.why}."
    text = f"{name}: {first.verdict} by time alone, {time}; {first.why}. Whether both did the same work is unknown: "
    return f"{text}{first.work.why}. {per_unit(first)}".rstrip()


def notes(found: Comparison) -> list[str]:
    """What to know of the pairs, the times and the two workloads."""
    said = []
    if found.before.id == found.after.id and any(p.pair.before == p.pair.after for p in found.pairs):
        said.append("Baseline and candidate are the same workload.")
    for pair in found.pairs:
        if pair.pair.how not in ("same name", "group"):
            said.append(f"Taken for versions of each other, {pair.pair.how}: {short(pair.pair.label)}.")
        said += [s for s in (risen(pair), _launches(pair), _medians(pair)) if s]
    said += [*_few(found), *_whole(found)]
    if any(p.terms for p in found.pairs):
        said.append(
            "explanation: the ms of the terms add up to the change of the total time; terms without counters in both "
            "workloads are left out and stay in the last one."
        )
    tags = [m.name for m in (found.before, found.after) if "partial" in m.tags]
    if tags:
        said.append(f"Partial profiles: {', '.join(tags)}.")
    hosts = {m.host for m in (found.before, found.after) if m.host}
    if len(hosts) > 1:
        said.append("The two were measured on different machines: their clocks and cooling may differ.")
    return list(dict.fromkeys(said))


def _few(found: Comparison) -> list[str]:
    """One sentence for all pairs without an interval."""
    few = [p.effect for p in found.pairs if p.effect and min(p.effect.n) < ENOUGH]
    if not few or found.other_gpu is not None:
        return []
    which = f" of {len(few)} pairs" if len(found.pairs) > 1 else f" ({few[0].n[0]} and {few[0].n[1]})"
    return [
        f"Fewer than {ENOUGH} timed launches{which}: no interval, and differences below "
        f"{max(e.floor for e in few):.0%} are taken for noise. Profile at least {ENOUGH} launches of each version."
    ]


def next_calls(found: Comparison, first: Compared | None) -> list[NextCall]:
    """Calls worth making next, from ids and closed sets only."""
    ids = {"baseline": found.before.id, "candidate": found.after.id}
    calls = []
    if first is not None and first.work.answer == "unknown" and found.other_gpu is None:
        arch = found.after.arch
        if arch:
            calls.append(
                NextCall(
                    tool="plan_profile",
                    arguments={"gpu": arch, "metrics": ["roofline", "overview"]},
                    why="the counters that tell whether both did the same work",
                )
            )
    grouped = any(p.pair.how == "group" for p in found.pairs)
    if found.matching.only_before and found.matching.only_after and not grouped:
        calls.append(
            NextCall(
                tool="list_workloads",
                arguments={"workload": found.after.id},
                why="kernels without a counterpart: fused or split ones are compared with group",
            )
        )
    if first is not None and first.verdict != "improved":
        calls.append(
            NextCall(tool="diagnose_bottleneck", arguments={"workload": found.after.id}, why="what limits it now")
        )
    if ids["baseline"] != ids["candidate"]:
        shown = {"kind": "compare", "workload": ids["baseline"], "candidate": ids["candidate"]}
        calls.append(NextCall(tool="plot", arguments=shown, why="both side by side"))
    return calls


def per_unit(pair: Compared) -> str:
    """The corrected figure: time per unit of work."""
    named = [f"x {ratio:.3f} per {_unit(name)}" for name, ratio in pair.per_unit.items()]
    if not named:
        return ""
    more = f"; {', '.join(named[1:3])}" if len(named) > 1 else ""
    if pair.work.answer != "no":
        return f"By unit: {named[0]}{more}."
    judged = "slower" if next(iter(pair.per_unit.values())) < 1 else "faster"
    return f"Per unit of work the candidate is {judged}: {named[0]}{more}."


def _unit(name: str) -> str:
    known = {"flop": "FLOP", "hbm_bytes": "byte of HBM traffic", "global_bytes_asked": "byte asked for"}
    return known.get(name, name.replace("_", " ").removesuffix("s"))


def risen(pair: Compared) -> str | None:
    """Bandwidth that rose because more was moved is no progress."""
    amounts = traffic(pair)
    if amounts is None or not pair.before.time_ns or not pair.after.time_ns:
        return None
    more, faster = amounts[1] / amounts[0], pair.before.time_ns / pair.after.time_ns
    if more < _TRAFFIC or pair.work.answer == "no" or more * faster <= 1:
        return None
    return (
        f"HBM bandwidth rose x {more * faster:.2f} but the speed-up is x {faster:.2f}: traffic rose by {more - 1:.0%}. "
        "Percent of peak is not progress by itself."
    )


def _launches(pair: Compared) -> str | None:
    counts = [sum(k.timed for k in side.kernels) for side in (pair.before, pair.after)]
    lost = sum(k.launches - k.timed for side in (pair.before, pair.after) for k in side.kernels)
    words = []
    if counts[0] != counts[1] and pair.effect is not None:
        basis = "whole profiles are" if pair.rounds == (1, 1) else "one launch is"
        words.append(f"launched {counts[0]} and {counts[1]} times; {basis} compared")
    if lost:
        words.append(f"{lost} launches have no usable time and are left out")
    return f"{short(pair.pair.label)}: {'; '.join(words)}." if words else None


def _medians(pair: Compared) -> str | None:
    """Where sums and medians tell different stories: outliers, warm-up, or launches of different sizes."""
    if pair.effect is None:
        return None
    mean = pair.before.time_ns / pair.after.time_ns
    apart = mean / pair.effect.speedup
    if 1 / _APART < apart < _APART:
        return None
    return (
        f"{short(pair.pair.label)}: by total time the speed-up is x {mean:.3f}, by the median launch x "
        f"{pair.effect.speedup:.3f}: some launches are much longer than others (first ones, or other sizes)."
    )


def _whole(found: Comparison) -> list[str]:
    """The effect end to end, where the pairs are not all there is."""
    before, after = found.total_ns
    if not before or not after or found.other_gpu is not None or found.before.id == found.after.id:
        return []
    if sum(p.share for p in found.pairs) > 1 - _DRIFT_SHARE and len(found.pairs) == 1:
        return []
    return [f"All kernels together: {before / 1e6:.4g} ms -> {after / 1e6:.4g} ms, x {before / after:.3f}."]
