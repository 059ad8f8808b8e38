"""Claims that a faster version implies, held against its profile: the same work, on this device, before the end.

A version can be faster because it does less: it keeps results of an earlier call, uses narrower types, leaves its
output unwritten, or moves work to where nobody measures it. Each claim holds, is not shown, or is contradicted by a
figure; what honest optimisations change (fewer requests, fused launches, other kernels) contradicts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tomli

from ..base.database import sql_literal, sql_name
from ..base.kernel_names import short
from ..base.problems import Problem
from ..base.text import count_text, figure
from ..catalogue import targets
from ..rooflines.inputs import RooflineRequest, prepare_inputs
from ..rooflines.limits import limits_of_kernels
from ..workload import Workload
from . import work
from .compare import ComparedPair, Comparison, launch_values
from .time_ratio import TimeVerdict
from .work import DIFFERENT, SAME

ClaimVerdict = Literal["holds", "not_shown", "contradicted"]
_DATA, _MEMORY = "claims.toml", "memory_bytes_written"


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
    if main is None:
        return [launched]
    judges: tuple[Callable[[Comparison, ComparedPair], ResultClaim | None], ...] = (
        _same_work, _same_types, _output_written, _launched_again, _own_kernels, _possible_rates, _existing_lds,
        _waited_for, _same_harness, _stated_work,
    )  # fmt: skip
    judged = [claim for judge in judges if (claim := judge(comparison, main)) is not None]
    return judged if launched.verdict == "holds" else [launched, *judged]


def contradicted_claims(claims: list[ResultClaim]) -> list[ResultClaim]:
    """The claims that the profile contradicts."""
    return [claim for claim in claims if claim.verdict == "contradicted"]


def verdict_with_claims(main: ComparedPair | None, against: Sequence[ResultClaim]) -> TimeVerdict:
    """The verdict of a pair, withheld (inconclusive) if its profile contradicts a claim, or without a pair."""
    return "inconclusive" if main is None or against else main.verdict


def _kernels_launched(comparison: Comparison) -> ResultClaim:
    """Whether the candidate launches kernels at all, and something in the place of the baseline's longest kernel."""
    sql = _dispatch_sql(comparison, None, "count(*) AS launches")
    before, after = comparison.before.kernels, comparison.after.kernels
    if before and not after:
        return ResultClaim("launches_kernels", "contradicted", "no kernel is launched", sql)
    longest = next(iter(before), None)
    gone = longest is not None and longest in comparison.matching.only_before
    if gone and after.keys() <= before.keys():
        why = f"{short(longest or '')} is no longer launched, and no new kernel is"
        return ResultClaim("launches_kernels", "not_shown", why, sql)
    return ResultClaim("launches_kernels", "holds", "kernels are launched", sql)


def _same_work(comparison: Comparison, main: ComparedPair) -> ResultClaim:
    answer = main.work.answer
    verdict: ClaimVerdict = "holds" if answer in ("yes", "probably") else "not_shown"
    if answer in DIFFERENT:
        verdict = "contradicted"
    return ResultClaim(
        "same_work", verdict, main.work.why, _dispatch_sql(comparison, main, "grid, count(*) AS launches")
    )


def _same_types(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether floating-point operations moved to narrower types."""
    shares = [_bits_of_operations(side, comparison.after.workload.arch) for side in (main.before, main.after)]
    before, after = shares
    if before is None or after is None:
        return None
    sql = _counter_sql(comparison, main, "flop")
    narrowed = before - after
    if narrowed <= _claims()["types"]["least_bits"]:
        return ResultClaim("same_types", "holds", f"operations have {figure(after, 3)} bits on average, as before", sql)
    why = f"operations have {figure(after, 3)} bits on average instead of {figure(before, 3)}, so accuracy changed"
    return ResultClaim("same_types", "contradicted", why, sql)


def _bits_of_operations(side: work.Side, target: str) -> float | None:
    """The mean width of the floating-point operations of a side in bits; None if none were counted."""
    widths: dict[str, float] = _claims()["types"]["bits"]
    amounts = [
        (widths[bare], amount)
        for operation in work.operations(target)
        if operation.kind == "flop" and (bare := operation.datatype.removesuffix("_packed")) in widths
        if (amount := side.amount(operation.name))
    ]
    total = sum(amount for _, amount in amounts)
    return sum(bits * amount for bits, amount in amounts) / total if total else None


def _output_written(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether as much is stored as before. Fused kernels write no intermediate results, so groups are not judged."""
    roles = work.target_quantities(comparison.after.workload.arch).roles
    stored = [n for n, role in roles.items() if role in ("written", "stores") and n != _MEMORY]
    name, ratio = next(((n, r) for n in stored if (r := _ratio(main, n)) is not None), ("", None))
    if ratio is None or len(main.pair.before) != len(main.pair.after):
        return None
    sql = _counter_sql(comparison, main, name)
    limits, title = _claims()["output"], name.replace("_", " ")
    why = f"{title}: {figure(100 * ratio, 3)} % of the baseline's"
    if ratio >= 1 - SAME:
        return ResultClaim("output_written", "holds", why, sql)
    if ratio > limits["least_ratio"]:
        return ResultClaim("output_written", "not_shown", f"{why}; wider or denser stores can explain that", sql)
    moved, atomics = _ratio(main, _MEMORY), main.after.amount("l2_atomics")
    if moved is None or moved > limits["least_memory_ratio"] or atomics is None or atomics > 0:
        return ResultClaim("output_written", "not_shown", f"{why}; atomics or bulk copies may write instead", sql)
    why += f", and {figure(100 * moved, 3)} % of its bytes written to memory, without atomics: results are missing"
    return ResultClaim("output_written", "contradicted", why, sql)


def _ratio(main: ComparedPair, quantity: str) -> float | None:
    """A quantity of the candidate divided by that of the baseline; None if one is unknown or the baseline's is 0."""
    before, after = main.before.amount(quantity), main.after.amount(quantity)
    return after / before if before and after is not None else None


def _launched_again(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether every call does the work: the same command launches as often, or each launch does more."""
    sides = (main.before, main.after)
    alike = len(main.pair.before) == len(main.pair.after)
    # Fused kernels are launched less often, so rounds are counted: launches of the kernel that is launched least.
    before, after = ((sum if alike else min)(k.launches for k in side.kernels) for side in sides)
    first, second = comparison.before.workload.manifest, comparison.after.workload.manifest
    if first.sampled or second.sampled:
        return None
    sql = _dispatch_sql(comparison, main, "count(*) AS launches")
    if after >= before:
        return ResultClaim("every_call_works", "holds", f"{count_text(after, 'launch')}, {before} before", sql)
    scale = main.after.rounds / main.before.rounds
    amounts = [q.ratio * scale for q in main.work.evidence if q.role in ("operations", "asked", "launch") and q.ratio]
    if max(amounts, default=0.0) >= 1 - SAME:
        return ResultClaim("every_call_works", "holds", "fewer launches, each of which does more", sql)
    why = f"{count_text(after, 'launch')} instead of {before}, and none of them does more"
    if _arguments(first.command) is None or _arguments(first.command) != _arguments(second.command):
        return ResultClaim("every_call_works", "not_shown", f"{why}; the commands differ or are unknown", sql)
    return ResultClaim("every_call_works", "contradicted", f"{why}: results of earlier calls may be kept", sql)


def _arguments(command: str | None) -> str | None:
    """The arguments of a command without the program, which has another name in each version."""
    return command.partition(" ")[2] if command else None


def _own_kernels(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether kernels of a vendor's library replaced own ones."""
    pattern = re.compile(_claims()["library"]["kernel"])
    before = [name for name in comparison.before.kernels if pattern.search(name)]
    after = [name for name in comparison.after.kernels if pattern.search(name)]
    sql = _dispatch_sql(comparison, None, "count(*) AS launches")
    new = [name for name in after if name not in before]
    if not new:
        return ResultClaim("own_kernels", "holds", "no kernel of a vendor's library was added", sql)
    if before:
        return ResultClaim("own_kernels", "not_shown", f"both versions use libraries; new: {short(new[0])}", sql)
    # To call a library is a good change, unless someone claims to have written the kernel.
    return ResultClaim("own_kernels", "not_shown", f"{short(new[0])} belongs to a library of the vendor", sql)


def _possible_rates(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether the rates of the candidate are physically possible."""
    names = (main.pair.before, main.pair.after)
    before, after = map(_impossible_units, (comparison.before.workload, comparison.after.workload), names)
    if after is None:
        return None
    sql = _dispatch_sql(comparison, main, "median(duration_ns) AS duration_ns")
    if not after:
        return ResultClaim("possible_rates", "holds", "no unit is above its limit", sql)
    why = f"the load of {after[0]} is impossible, so time or counters do not belong to this work"
    return ResultClaim("possible_rates", "not_shown" if before else "contradicted", why, sql)


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


def _existing_lds(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether the work-groups use no more LDS than the device has."""
    workload = comparison.after.workload
    if workload.arch not in targets.targets() or not workload.has("dispatches"):
        return None
    rules = targets.gpu(workload.arch).occupancy
    most = rules.max_lds_bytes_per_workgroup if rules else None
    names = ", ".join(map(sql_literal, main.pair.after))
    used = workload.rows(f"SELECT max(lds_bytes) FROM {workload.relation('dispatches')} WHERE kernel IN ({names})")[0][
        0
    ]
    if most is None or used is None:
        return None
    sql = _dispatch_sql(comparison, main, "max(lds_bytes) AS lds_bytes")
    if used > most.value:
        why = f"a work-group uses {used:,} bytes of LDS, and the device has {int(most.value):,}"
        return ResultClaim("existing_lds", "contradicted", why, sql)
    return ResultClaim("existing_lds", "holds", f"{used:,} of {int(most.value):,} bytes per work-group", sql)


def _waited_for(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether the program waits for all of its kernels, so that a measured interval can contain them.

    A synchronisation that returns while a kernel of another stream runs is normal in a pipeline, and a way to hide work
    from a clock: it is not shown which of them it is.
    """
    versions = (comparison.before.workload, comparison.after.workload)
    late, beside = ([count(version) for version in versions] for count in (_late_kernels, _kernels_across_waits))
    if late[0] is None or late[1] is None:
        return None
    # A copy to the host waits as a synchronisation does.
    sql = (
        "SELECT name, count(*) AS launches FROM events AS e WHERE workload = "
        f"{sql_literal(comparison.after.id)} AND kind = 'kernel' AND end_ns > {_wait_slack_ns()} + (SELECT max(end_ns) "
        f"FROM events WHERE workload = e.workload AND {_WAIT}) GROUP BY name"
    )
    if late[1] and not late[0]:
        why = f"{count_text(late[1], 'launch')} end after everything that the host waits for, none before"
        return ResultClaim("waits_for_its_work", "contradicted", why, sql)
    if beside[1] and not beside[0]:
        why = f"{count_text(beside[1], 'launch')} still run when a wait of the host returns, none before"
        return ResultClaim("waits_for_its_work", "not_shown", f"{why}: time the whole program", sql)
    return ResultClaim("waits_for_its_work", "holds", "the host waits for its kernels as before", sql)


_WAIT = "(kind = 'sync' OR (kind = 'copy' AND direction = 'd2h'))"


def _wait_slack_ns() -> int:
    return int(_claims()["waits"]["slack_ns"])


def _late_kernels(workload: Workload) -> int | None:
    """How many kernels end after everything that the host waits for; None without a timeline that has both."""
    if not workload.has("events"):
        return None
    events = workload.relation("events")
    rows = workload.rows(f"SELECT max(end_ns) FILTER ({_WAIT}), count(*) FILTER (kind = 'kernel') FROM {events}")
    last, kernels = rows[0]
    if last is None or not kernels:
        return None
    late = f"kind = 'kernel' AND end_ns > {last} + {_wait_slack_ns()}"
    return int(workload.rows(f"SELECT count(*) FROM {events} WHERE {late}")[0][0])


def _kernels_across_waits(workload: Workload) -> int:
    """How many kernels run when a synchronisation of the host returns."""
    if not workload.has("events"):
        return 0
    events = workload.relation("events")
    return int(
        workload.rows(
            f"SELECT count(*) FROM (SELECT start_ns, end_ns - {_wait_slack_ns()} AS until FROM {events} "
            f"WHERE kind = 'kernel') AS k ASOF JOIN (SELECT end_ns FROM {events} WHERE kind = 'sync') AS s "
            "ON k.until > s.end_ns WHERE s.end_ns > k.start_ns"
        )[0][0]
    )


def _same_harness(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether kernels that are not part of the change run as fast as before.

    A harness whose own kernels became slower makes a ratio to them look better. What the kernel filter of both profiles
    leaves out is the harness; without a filter, any other kernel may be slower for good reasons.
    """
    before, after = comparison.before.workload, comparison.after.workload
    limits, ours = _claims()["harness"], {*main.pair.before, *main.pair.after}
    common = [name for name in comparison.before.kernels if name in comparison.after.kernels and name not in ours]
    times = {n: [v.kernels[n] for v in (comparison.before, comparison.after)] for n in common}
    timed = {n: pair for n, pair in times.items() if min(one.timed for one in pair) >= limits["least_launches"]}
    if not timed or before.manifest.kernel_filter != after.manifest.kernel_filter:
        return None
    ratios = {n: (b.total_ns / b.timed) / (a.total_ns / a.timed) for n, (a, b) in timed.items()}
    name, ratio = max(ratios.items(), key=lambda pair: pair[1])
    sql = _dispatch_sql(comparison, None, "avg(duration_ns) AS duration_ns")
    if ratio < limits["slower"]:
        return ResultClaim("same_harness", "holds", "other kernels are not slower than before", sql)
    pattern = after.manifest.kernel_filter
    why = f"{short(name)}, which is not part of the change, takes {figure(ratio, 3)} times as long as before"
    shapes = [launch_values(workload, [name]).get(name) for workload in (before, after)]
    if pattern is None or name in after.select(pattern).kernels or shapes[0] != shapes[1]:
        return ResultClaim("same_harness", "not_shown", why, sql)
    return ResultClaim("same_harness", "contradicted", f"{why}: ratios to it do not count", sql)


def _stated_work(comparison: Comparison, main: ComparedPair) -> ResultClaim | None:
    """Whether the candidate moves and computes at least what its shapes require, if tags state that.

    The tags ``work.bytes=4.3e9`` and ``work.flop=1e12`` of the candidate, else those of the baseline, are for one run
    of the program. Bytes count where most of them pass, because caches serve a part.
    """
    after = comparison.after
    tags = [tag for v in (after, comparison.before) for tag in v.workload.manifest.tags if tag.startswith("work.")]
    stated: dict[str, float] = {}
    for tag in tags:
        name, _, text = tag.removeprefix("work.").partition("=")
        if name in ("bytes", "flop") and re.fullmatch(r"[0-9.]+(?:[eE]\+?[0-9]+)?", text):
            stated.setdefault(name, float(text))
    if not stated:
        return None
    sql = _counter_sql(comparison, main, "flop")
    done = {name: _amount_of_all(comparison, name) for name in stated}
    texts = [
        f"{figure(done[n] or 0.0, 3)} of {figure(least, 3)} {n}" for n, least in stated.items() if done[n] is not None
    ]
    least_ratio = _claims()["stated"]["least_ratio"]
    if any((amount := done[name]) is not None and amount < least_ratio * least for name, least in stated.items()):
        return ResultClaim("stated_work", "contradicted", f"counted {', '.join(texts)} that were stated", sql)
    if any(amount is None for amount in done.values()):
        return ResultClaim("stated_work", "not_shown", "not every launch and kind of operation was counted", sql)
    return ResultClaim("stated_work", "holds", f"counted {', '.join(texts)} that were stated", sql)


def _amount_of_all(comparison: Comparison, name: str) -> float | None:
    """The bytes or floating-point operations of one run of the candidate; None if not all of it was counted."""
    version = comparison.after
    formulas = work.expressions([version.workload])
    wanted = [o.name for o in work.operations(version.workload.arch) if o.kind == "flop" and not o.optional]
    if name == "bytes":
        wanted = [level for level in ("hbm", "l2", "vl1d", "vl1d.asked") if level in formulas]
    collected = work.collect_work(version.workload, list(version.kernels), formulas)
    done = {one.kernel: one for one in collected.groups}
    side = work.Side(tuple(version.kernels.values()), tuple(done.get(n) for n in version.kernels), version.runs)
    amounts = [side.amount(one) for one in wanted]
    known = [amount for amount in amounts if amount is not None]
    if name == "bytes":
        return max(known, default=None)
    return sum(known) if known and len(known) == len(wanted) else None


def _dispatch_sql(comparison: Comparison, main: ComparedPair | None, columns: str) -> str:
    """SQL over the launches of both versions, of one pair or of all kernels."""
    ids = ", ".join(sql_literal(version.id) for version in (comparison.before, comparison.after))
    grouped = [name for name in columns.split(", ") if "(" not in name]
    names = f" AND kernel IN ({', '.join(_names(main))})" if main else ""
    return (
        f"SELECT workload, kernel, {columns} FROM dispatches WHERE workload IN ({ids}){names} "
        f"GROUP BY {', '.join(['workload', 'kernel', *grouped])}"
    )


def _counter_sql(comparison: Comparison, main: ComparedPair, quantity: str) -> str:
    """SQL over the counters from which a quantity is computed, summed over the launches of both versions."""
    ids = ", ".join(sql_literal(version.id) for version in (comparison.before, comparison.after))
    wanted = work.behind(comparison.after.workload.arch, quantity)
    columns = sorted(comparison.after.collected.columns_behind(wanted) - {"duration_ns", "grid", "lds_bytes"})
    sums = ", ".join(f"sum({sql_name(name)}) AS {sql_name(name)}" for name in columns) or "count(*) AS launches"
    return (
        f"SELECT workload, kernel, {sums} FROM counters WHERE workload IN ({ids}) AND kernel IN "
        f"({', '.join(_names(main))}) GROUP BY workload, kernel"
    )


def _names(main: ComparedPair) -> Iterator[str]:
    return (sql_literal(name) for name in dict.fromkeys((*main.pair.before, *main.pair.after)))


@cache
def _claims() -> dict[str, dict[str, Any]]:
    return tomli.loads(Path(__file__).with_name(_DATA).read_text(encoding="utf-8"))
