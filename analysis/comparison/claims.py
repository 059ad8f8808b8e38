"""Claims that a faster version implies, held against its profile: the same work, on this device, before the end.

A version can be faster because it does less: it keeps results of an earlier call, uses narrower types, leaves its
output unwritten, or moves work to where nobody measures it. Each claim holds, is not shown, or is contradicted by a
figure; what honest optimisations change (fewer requests, fused launches, other kernels) contradicts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from ..base.database import sql_literal, sql_name
from ..base.kernel_names import short
from ..base.problems import Problem
from ..base.text import count_text, figure
from ..catalogue import targets
from ..catalogue.rules import library_kernel
from ..rooflines.inputs import RooflineRequest, prepare_inputs
from ..rooflines.limits import limits_of_kernels
from ..workload import Workload
from . import work
from .compare import ComparedPair, Comparison, launch_values
from .time_ratio import TimeVerdict
from .wording import entries, word
from .work import DIFFERENT, SAME

ClaimVerdict = Literal["holds", "not_shown", "contradicted"]
_MEMORY = "memory_bytes_written"
_Figures = dict[str, str | int]
_Finding = tuple[str, _Figures]
"""An outcome that claims.toml lists for a claim, with its verdict and sentence, and the figures of that sentence."""


class ResultClaim(NamedTuple):
    """One claim of the candidate, the verdict on it, why, and the SQL that shows the deciding figure."""

    claim: str
    verdict: ClaimVerdict
    why: str
    sql: str


def judge_claims(comparison: Comparison) -> list[ResultClaim]:
    """Judge the claims of the candidate in the pair that takes the most time of the baseline.

    Claims about which neither profile has any data are omitted. Without a pair, only the launches are judged.
    """
    main, launched = comparison.main, _kernels_launched(comparison)
    findings: dict[str, _Finding | None] = {"launches_kernels": launched}
    if main is not None:
        findings |= {name: judge(comparison, main) for name, judge in _JUDGES.items()}
        if launched[0] == "launched":
            del findings["launches_kernels"]
    claims = []
    for name, (outcome, figures) in ((n, finding) for n, finding in findings.items() if finding is not None):
        entry = entries("claims")["judged"][name]
        verdict, why = entry["outcomes"][outcome]
        claims.append(ResultClaim(name, verdict, word(why, **figures), _sql(comparison, main, entry, figures)))
    return claims


def contradicted_claims(claims: list[ResultClaim]) -> list[ResultClaim]:
    """The claims that the profile contradicts."""
    return [claim for claim in claims if claim.verdict == "contradicted"]


def verdict_with_claims(main: ComparedPair | None, against: Sequence[ResultClaim]) -> TimeVerdict:
    """The verdict of a pair, withheld (inconclusive) if its profile contradicts a claim, or without a pair."""
    return "inconclusive" if main is None or against else main.verdict


def _kernels_launched(comparison: Comparison) -> _Finding:
    """Whether the candidate launches kernels at all, and something in the place of the baseline's longest kernel."""
    before, after = comparison.before.kernels, comparison.after.kernels
    if before and not after:
        return "none", {}
    longest = next(iter(before), "")
    if longest in comparison.matching.only_before and after.keys() <= before.keys():
        return "gone", {"kernel": short(longest)}
    return "launched", {}


def _same_work(_: Comparison, main: ComparedPair) -> _Finding:
    answer = main.work.answer
    outcome = "different" if answer in DIFFERENT else "same" if answer in ("yes", "probably") else "unknown"
    return outcome, {"why": main.work.why}


def _same_types(comparison: Comparison, main: ComparedPair) -> _Finding | None:
    """Whether floating-point operations moved to narrower types."""
    before, after = (_bits_of_operations(side, comparison.after.workload.arch) for side in (main.before, main.after))
    if before is None or after is None:
        return None
    outcome = "as_before" if before - after <= entries("claims")["types"]["least_bits"] else "narrower"
    return outcome, {"before": figure(before, 3), "after": figure(after, 3)}


def _bits_of_operations(side: work.Side, target: str) -> float | None:
    """The mean width of the floating-point operations of a side in bits; None if none were counted."""
    widths: dict[str, float] = entries("claims")["types"]["bits"]
    amounts = [
        (widths[bare], amount)
        for operation in work.operations(target)
        if operation.kind == "flop" and (bare := operation.datatype.removesuffix("_packed")) in widths
        if (amount := side.amount(operation.name))
    ]
    total = sum(amount for _, amount in amounts)
    return sum(bits * amount for bits, amount in amounts) / total if total else None


def _output_written(comparison: Comparison, main: ComparedPair) -> _Finding | None:
    """Whether as much is stored as before. Fused kernels write no intermediate results, so groups are not judged."""
    roles = work.target_quantities(comparison.after.workload.arch).roles
    stored = [n for n, role in roles.items() if role in ("written", "stores") and n != _MEMORY]
    name, ratio = next(((n, r) for n in stored if (r := _ratio(main, n)) is not None), ("", None))
    if ratio is None or len(main.pair.before) != len(main.pair.after):
        return None
    limits, title = entries("claims")["output"], name.replace("_", " ")
    figures: _Figures = {"quantity": name, "title": title, "share": figure(100 * ratio, 3)}
    if ratio >= 1 - SAME:
        return "written", figures
    if ratio > limits["least_ratio"]:
        return "less", figures
    moved, atomics = _ratio(main, _MEMORY), main.after.amount("l2_atomics")
    if moved is None or moved > limits["least_memory_ratio"] or atomics is None or atomics > 0:
        return "otherwise", figures
    return "missing", figures | {"of_memory": figure(100 * moved, 3)}


def _ratio(main: ComparedPair, quantity: str) -> float | None:
    """A quantity of the candidate divided by that of the baseline; None if one is unknown or the baseline's is 0."""
    before, after = main.before.amount(quantity), main.after.amount(quantity)
    return after / before if before and after is not None else None


def _launched_again(comparison: Comparison, main: ComparedPair) -> _Finding | None:
    """Whether every call does the work: the same command launches as often, or each launch does more."""
    # Fused kernels are launched less often, so rounds are counted: launches of the kernel that is launched least.
    rounds_of = sum if len(main.pair.before) == len(main.pair.after) else min
    before, after = (rounds_of(k.launches for k in side.kernels) for side in (main.before, main.after))
    first, second = comparison.before.workload.manifest, comparison.after.workload.manifest
    if first.sampled or second.sampled:
        return None
    figures: _Figures = {"launches": count_text(after, "launch"), "before": before}
    if after >= before:
        return "as_often", figures
    scale = main.after.rounds / main.before.rounds
    amounts = [q.ratio * scale for q in main.work.evidence if q.role in ("operations", "asked", "launch") and q.ratio]
    if max(amounts, default=0.0) >= 1 - SAME:
        return "larger", figures
    # The program itself has another name in each version.
    arguments = [(manifest.command or "").partition(" ")[2] for manifest in (first, second)]
    known = first.command and second.command and arguments[0] == arguments[1]
    return "kept" if known else "other_command", figures


def _own_kernels(comparison: Comparison, _: ComparedPair) -> _Finding:
    """Whether kernels of a vendor's library replaced own ones; to call one is a good change, but no own kernel."""
    before, after = (list(filter(library_kernel, v.kernels)) for v in (comparison.before, comparison.after))
    new = next((name for name in after if name not in before), None)
    if new is None:
        return "own", {}
    return "both" if before else "added", {"kernel": short(new)}


def _possible_rates(comparison: Comparison, main: ComparedPair) -> _Finding | None:
    """Whether the rates of the candidate are physically possible."""
    before = _impossible_units(comparison.before.workload, main.pair.before)
    after = _impossible_units(comparison.after.workload, main.pair.after)
    if after is None:
        return None
    if not after:
        return "possible", {}
    return "as_before" if before else "impossible", {"unit": after[0]}


def _impossible_units(workload: Workload, kernels: Sequence[str]) -> list[str] | None:
    """The units of these kernels whose loads are impossible; None if no load is known."""
    if not workload.has("counters") or work.family(workload.arch) is None:
        return None
    try:
        wanted = RooflineRequest(kernel="|".join(f"^{re.escape(name)}$" for name in kernels))
        views = limits_of_kernels(prepare_inputs(workload, wanted))
    except Problem:
        return None
    known = [load for view in views for load in view.loads if load.pct is not None or load.status == "impossible"]
    return [load.label for load in known if load.status == "impossible"] if known else None


def _existing_lds(comparison: Comparison, main: ComparedPair) -> _Finding | None:
    """Whether the work-groups use no more LDS than the device has."""
    workload = comparison.after.workload
    if workload.arch not in targets.targets() or not workload.has("dispatches"):
        return None
    rules = targets.gpu(workload.arch).occupancy
    most = rules.max_lds_bytes_per_workgroup if rules else None
    relation, names = workload.relation("dispatches"), _sql_list(main.pair.after)
    ((used,),) = workload.rows(f"SELECT max(lds_bytes) FROM {relation} WHERE kernel IN ({names})")
    if most is None or used is None:
        return None
    return "too_much" if used > most.value else "existing", {"used": used, "most": int(most.value)}


def _waited_for(comparison: Comparison, _: ComparedPair) -> _Finding | None:
    """Whether the program waits for all of its kernels, so that a measured interval can contain them.

    A synchronisation that returns while a kernel of another stream runs is normal in a pipeline, and a way to hide work
    from a clock: it is not shown which of them it is.
    """
    versions = (comparison.before.workload, comparison.after.workload)
    (late_before, late), (beside_before, beside) = (
        [_count_kernels(version, query) for version in versions] for query in ("late", "beside")
    )
    if late_before is None or late is None:
        return None
    if late and not late_before:
        return "late", {"launches": count_text(late, "launch")}
    if beside and not beside_before:
        return "beside", {"launches": count_text(beside, "launch")}
    return "waited_for", {}


def _count_kernels(workload: Workload, query: str) -> int | None:
    """The result of a query of claims.toml on the timeline; None without one that has what it needs."""
    if not workload.has("events"):
        return None
    waits = entries("claims")["waits"]
    ((count,),) = workload.rows(waits[query].format(**waits, events=workload.relation("events")))
    return None if count is None else int(count)


def _same_harness(comparison: Comparison, main: ComparedPair) -> _Finding | None:
    """Whether kernels that are not part of the change run as fast as before.

    A harness whose own kernels became slower makes a ratio to them look better. What the kernel filter of both profiles
    leaves out is the harness; without a filter, any other kernel may be slower for good reasons.
    """
    before, after = comparison.before.workload, comparison.after.workload
    limits, ours = entries("claims")["harness"], {*main.pair.before, *main.pair.after}
    common = [name for name in comparison.before.kernels if name in comparison.after.kernels and name not in ours]
    times = {n: [v.kernels[n] for v in (comparison.before, comparison.after)] for n in common}
    timed = {n: pair for n, pair in times.items() if min(one.timed for one in pair) >= limits["least_launches"]}
    if not timed or before.manifest.kernel_filter != after.manifest.kernel_filter:
        return None
    ratios = {n: (b.total_ns / b.timed) / (a.total_ns / a.timed) for n, (a, b) in timed.items()}
    name, ratio = max(ratios.items(), key=lambda pair: pair[1])
    if ratio < limits["slower"]:
        return "as_fast", {}
    pattern = after.manifest.kernel_filter
    shapes = [launch_values(workload, [name]).get(name) for workload in (before, after)]
    uncertain = pattern is None or name in after.select(pattern).kernels or shapes[0] != shapes[1]
    return "other_kernel" if uncertain else "slower", {"kernel": short(name), "ratio": figure(ratio, 3)}


def _stated_work(comparison: Comparison, _: ComparedPair) -> _Finding | None:
    """Whether the candidate moves and computes at least what its shapes require, if tags state that.

    The tags ``work.bytes=4.3e9`` and ``work.flop=1e12`` of the candidate, else those of the baseline, are for one run
    of the program. Bytes count where most of them pass, because caches serve a part.
    """
    tags = [*comparison.after.workload.manifest.tags, *comparison.before.workload.manifest.tags]
    stated: dict[str, float] = {}
    for match in filter(None, map(_STATED.fullmatch, tags)):
        stated.setdefault(match[1], float(match[2]))
    if not stated:
        return None
    counted = {name: amount for name in stated if (amount := _amount_of_all(comparison, name)) is not None}
    texts = [f"{figure(amount, 3)} of {figure(stated[name], 3)} {name}" for name, amount in counted.items()]
    least_ratio = entries("claims")["stated"]["least_ratio"]
    if any(amount < least_ratio * stated[name] for name, amount in counted.items()):
        return "less", {"amounts": ", ".join(texts)}
    return "uncounted" if len(counted) < len(stated) else "done", {"amounts": ", ".join(texts)}


_STATED = re.compile(r"work\.(bytes|flop)=([0-9.]+(?:[eE]\+?[0-9]+)?)")


def _amount_of_all(comparison: Comparison, name: str) -> float | None:
    """The bytes or floating-point operations of one run of the candidate; None if not all of it was counted."""
    version = comparison.after
    formulas = work.expressions([version.workload])
    wanted = [o.name for o in work.operations(version.workload.arch) if o.kind == "flop" and not o.optional]
    if name == "bytes":
        wanted = [level for level in ("hbm", "l2", "vl1d", "vl1d.asked") if level in formulas]
    collected = work.collect_work(version.workload, list(version.kernels), formulas)
    everything = replace(version, done={one.kernel: one for one in collected.groups})
    side = everything.side(list(version.kernels), version.runs)
    known = [amount for one in wanted if (amount := side.amount(one)) is not None]
    if name == "bytes":
        return max(known, default=None)
    return sum(known) if known and len(known) == len(wanted) else None


_JUDGES: dict[str, Callable[[Comparison, ComparedPair], _Finding | None]] = {
    "same_work": _same_work,
    "same_types": _same_types,
    "output_written": _output_written,
    "every_call_works": _launched_again,
    "own_kernels": _own_kernels,
    "possible_rates": _possible_rates,
    "existing_lds": _existing_lds,
    "waits_for_its_work": _waited_for,
    "same_harness": _same_harness,
    "stated_work": _stated_work,
}


def _sql_list(names: Iterable[str]) -> str:
    return ", ".join(map(sql_literal, names))


def _sql(comparison: Comparison, main: ComparedPair | None, entry: dict[str, Any], figures: dict[str, Any]) -> str:
    """The query that claims.toml states for a claim, over the launches or counters of both versions."""
    if query := entry.get("query"):
        return str(query).format(**entries("claims")["waits"], candidate=sql_literal(comparison.after.id))
    table, columns, grouped = "dispatches", entry.get("columns", ""), ["workload", "kernel", *entry.get("grouped", [])]
    if quantity := entry.get("counters", "").format(**figures):
        needed = work.behind(comparison.after.workload.arch, quantity)
        names = sorted(comparison.after.collected.columns_behind(needed) - {"duration_ns", "grid", "lds_bytes"})
        sums = ", ".join(f"sum({sql_name(name)}) AS {sql_name(name)}" for name in names)
        table, columns = "counters", sums or "count(*) AS launches"
    ids = _sql_list([comparison.before.id, comparison.after.id])
    which = ""
    if main is not None and not entry.get("all_kernels"):
        which = f" AND kernel IN ({_sql_list(dict.fromkeys((*main.pair.before, *main.pair.after)))})"
    return (
        f"SELECT {', '.join([*grouped, columns])} FROM {table} WHERE workload IN ({ids}){which} "
        f"GROUP BY {', '.join(grouped)}"
    )
