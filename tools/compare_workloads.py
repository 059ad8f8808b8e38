"""The tool compare_workloads: did a change help, and was it the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis import experiments
from ..analysis.comparison import explain
from ..analysis.comparison.compare import Compared, Comparison, compare
from ..analysis.comparison.explain import changes
from ..analysis.comparison.matching import base_name
from ..analysis.comparison.time import ENOUGH
from ..analysis.experiments import Entry, Outcome
from ..analysis.problems import BadArgument
from ..analysis.store import Store
from ..analysis.workload import Workload
from .profilers.tables.names import noted
from .results import NextCall, Result, Table, table

_NAME = 90
_ONLY = 8
_WORK = 6
_METRICS = {"summary": 6, "full": 20}
_FIGURES = 6
_NORMALISED = 2


def kernels(found: Comparison) -> Table:
    """One row a pair: time of a launch (of a group: of a round), speed-up with interval, verdict."""
    columns = {
        **dict.fromkeys(("kernel", "match")), "share_pct": "%", "baseline_ms": "ms", "candidate_ms": "ms",
        **dict.fromkeys(("speedup", "low", "high", "noise_pct", "n", "verdict", "same_work", "per_work", "per")),
    } | {"noise_pct": "%"}  # fmt: skip
    made, total = (
        table(columns, [_kernel(pair, found.other_gpu is not None) for pair in found.pairs]),
        len(found.matching.pairs),
    )
    return made.model_copy(update={"total_rows": total, "truncated": total > len(made.rows)})


def work(pairs: Sequence[Compared], detail: str) -> Table | None:
    """The quantities that tell whether the work was the same, in one round of launches."""
    rows = []
    for pair in pairs:
        shown = pair.work.evidence if detail == "full" else _telling(pair)
        for e in shown:
            unit = pair.per_unit.get(e.quantity)
            rows.append(
                [_brief(pair), e.quantity, rounded(e.before), rounded(e.after), rounded(e.ratio), rounded(unit)]
            )
    columns = ("kernel", "quantity", "baseline", "candidate", "ratio", "speedup_per_unit")
    return table(dict.fromkeys(columns), rows) if rows else None


def explanation(pairs: Sequence[Compared]) -> Table | None:
    """Terms whose ms add up to the change of the total time, and the factor that each puts on it."""
    rows = []
    for pair in pairs:
        for t in pair.terms:
            values = [rounded(t.before), rounded(t.after), t.unit or None]
            rows.append([_brief(pair), t.name, *values, rounded(t.factor), t.delta_ns / 1e6])
        if pair.terms:
            total = sum(t.delta_ns for t in pair.terms)
            before = pair.before.time_ns * pair.before.rounds
            rows.append([_brief(pair), "sum", None, None, None, rounded(1 + total / before), total / 1e6])
    columns = dict.fromkeys(("kernel", "term", "baseline", "candidate", "unit", "time_factor")) | {"delta_ms": "ms"}
    return table(columns, rows) if rows else None


def normalised(found: Comparison) -> Table:
    """Different GPUs: the least time on each one's own theoretical ceilings as a share of its time, and CU-cycles."""
    rows: list[list[Any]] = []
    for pair in found.pairs[:_NORMALISED]:
        shares, cycles = [], []
        for side, side_of, limits in zip(
            (pair.before, pair.after), (found.before, found.after), found.ceilings, strict=True
        ):
            least = explain.least_times(side, side_of.arch, limits) if limits is not None else {}
            shares.append({name: 100 * t[0] / side.time_ns for name, t in least.items() if side.time_ns})
            spent, units = side.amount("clock.of"), side_of.facts.get("cu_per_gpu") if side_of.arch else None
            cycles.append(spent * units if spent and units else None)
        for name in shares[0]:
            if name in shares[1] and max(shares[0][name], shares[1][name]) > 0:
                rows.append(
                    [_brief(pair), name, rounded(shares[0][name]), rounded(shares[1][name]), "% of own ceiling"]
                )
        if None not in cycles:
            rows.append([_brief(pair), "cycles of all units", rounded(cycles[0]), rounded(cycles[1]), "CU x cycles"])
    return table(dict.fromkeys(("kernel", "figure", "baseline", "candidate", "unit")), rows)


def metrics(found: Comparison, pairs: Sequence[Compared], detail: str) -> Table | None:
    """The metrics that changed most, of pairs of single kernels."""
    rows: list[list[Any]] = []
    for pair in pairs:
        names = pair.pair.before, pair.pair.after
        if len(names[0]) != 1 or len(names[1]) != 1:
            continue
        other = found.other_gpu is not None
        for c in changes(found.before, names[0][0], found.after, names[1][0], other)[: _METRICS[detail]]:
            same = c.before.unit == c.after.unit
            unit = c.before.unit if same else f"{c.before.unit} / {c.after.unit}"
            word = "" if c.better is None else "yes" if c.better else "no"
            shown = [c.before.value, c.after.value]
            if other and c.before.pct_of_peak is not None and unit != "%":
                shown, unit = [c.before.pct_of_peak, c.after.pct_of_peak], "% of own peak"
            rows.append([_brief(pair), c.before.name, *map(rounded, shown), unit, word])
    columns = dict.fromkeys(("kernel", "metric", "baseline", "candidate", "unit", "better"))
    return table(columns, rows) if rows else None


def traffic(pair: Compared) -> tuple[float, float] | None:
    """HBM bytes of a round before and after, where both are known and not nothing."""
    amounts = pair.before.amount("hbm"), pair.after.amount("hbm")
    return (amounts[0], amounts[1]) if amounts[0] and amounts[1] else None


def short(name: str) -> str:
    """A kernel's name cut to what a table bears."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 20]}...{name[-17:]}"


def named(names: Sequence[str]) -> list[str]:
    """The first names of a list, and how many follow."""
    more = [f"and {len(names) - _ONLY} more"] if len(names) > _ONLY else []
    return [short(n) for n in names[:_ONLY]] + more


def _brief(pair: Compared) -> str:
    """A pair's name without parameters; the table kernels has it in full."""
    if pair.pair.how == "group":
        return pair.pair.label
    return short(" -> ".join(dict.fromkeys(base_name(names[0]) for names in (pair.pair.before, pair.pair.after))))


def _kernel(pair: Compared, other_gpu: bool) -> list[Any]:
    """The row of a pair; between different GPUs without the ratio of times."""
    e = pair.effect
    per = next(iter(pair.per_unit), None) if pair.work.answer != "yes" else None
    times: list[Any] = [e.baseline_ns / 1e6, e.candidate_ns / 1e6] if e else [None] * 2
    times += [rounded(e.speedup), rounded(e.low), rounded(e.high)] if e and not other_gpu else [None] * 3
    noise = [None if other_gpu else rounded(100 * e.floor), _counts(e.n)] if e else [None, None]
    judged = [pair.verdict, pair.work.answer, rounded(pair.per_unit[per]) if per else None, per]
    return [short(pair.pair.label), pair.pair.how, rounded(100 * pair.share), *times, *noise, *judged]


def _counts(n: tuple[int, int]) -> str:
    return str(n[0]) if n[0] == n[1] else f"{n[0]}, {n[1]}"


def _telling(pair: Compared) -> list[Any]:
    """What the answer rests on first, then what changed most."""
    evidence = [e for e in pair.work.evidence if e.before or e.after]
    return evidence[:_WORK]


def rounded(value: float | None) -> float | None:
    """A value with the digits that an answer needs."""
    return None if value is None else float(f"{value:.{_FIGURES}g}")


_TRAFFIC = 1.05
_APART = 1.1
_DRIFT_SHARE = 0.005


def pair_summary(found: Comparison, first: Compared | None) -> str:
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


def pair_notes(found: Comparison) -> list[str]:
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
    tags = [m.name for m in (found.before, found.after) if "partial" in m.manifest.tags]
    if tags:
        said.append(f"Partial profiles: {', '.join(tags)}.")
    hosts = {w.manifest.host for w in (found.before, found.after) if w.manifest.host}
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


def steps(found: Sequence[Comparison]) -> Table:
    """One row a step and pair: against the baseline and against the step before, with HBM traffic and bandwidth."""
    columns: dict[str, str | None] = {
        "workload": None, "kernel": None, "ms": "ms", "speedup": None, "low": None, "high": None, "verdict": None,
        "same_work": None, "step_speedup": None, "hbm_bytes": "bytes", "hbm_gbs": "GB/s", "pct_of_peak": "%",
        "traffic_ratio": None, "bandwidth_ratio": None,
    }  # fmt: skip
    rows: list[list[Any]] = []
    last: dict[str, float] = {}
    for step, comparison in enumerate(found):
        for pair in comparison.pairs:
            label = pair.pair.before[0] if pair.pair.how != "group" else pair.pair.label
            if step == 0:
                rows.append(_first_step(comparison, pair, label))
                last[label] = pair.effect.baseline_ns if pair.effect else 0.0
            rows.append(_step(comparison, pair, label, last.get(label)))
            last[label] = pair.effect.candidate_ns if pair.effect else 0.0
    return table(columns, rows)


def series_summary(found: Sequence[Comparison]) -> str:
    """The speed-up of every step over the baseline, and the best of those that are certain."""
    steps = [(c, p) for c in found for p in c.pairs if p.effect is not None]
    if not steps:
        return "No kernel of the baseline has a timed counterpart."
    told = [(c, p) for c, p in steps if p.verdict == "improved"]
    words = [
        f"{c.after.name} x {p.effect.speedup:.3f} ({'not like for like' if p.work.answer == 'no' else p.verdict})"
        for c, p in steps
        if p.effect and c.other_gpu is None
    ]
    best = max(told, key=lambda s: s[1].effect.speedup if s[1].effect else 0.0, default=None)
    lead = f"Best so far: {best[0].after.name}. " if best else "No step is a certain improvement. "
    return f"{lead}Speed-up over {found[0].before.name}: {', '.join(words)}."


def series_notes(found: Sequence[Comparison]) -> list[str]:
    """What the steps of a series teach, and where they are not alike."""
    said = []
    for c in found:
        if c.other_gpu:
            said.append(f"{c.after.name}: {c.other_gpu}; its times are not compared.")
        for pair in c.pairs:
            if pair.work.answer == "no":
                said.append(f"{c.after.name}: not like for like, {pair.work.why}. {per_unit(pair)}")
            if text := risen(pair):
                said.append(f"{c.after.name}: {text}")
        if not c.pairs:
            said.append(f"{c.after.name}: no kernel has a counterpart in the baseline.")
    few = [p for c in found for p in c.pairs if p.effect and min(p.effect.n) < ENOUGH]
    if few:
        said.append(
            f"Fewer than {ENOUGH} timed launches in {len(few)} of {len(found)} steps: no interval, and a noise floor "
            f"of {max(p.effect.floor for p in few if p.effect):.0%}."
        )
    return list(dict.fromkeys(said))


def _first_step(comparison: Comparison, pair: Compared, label: str) -> list[Any]:
    e, amounts = pair.effect, traffic(pair)
    head = [comparison.before.name, short(label), e.baseline_ns / 1e6 if e else None, 1.0 if e else None, None, None]
    return [*head, "baseline", None, None, *_bandwidth(comparison, amounts, 0, pair.before.time_ns), None, None]


def _step(comparison: Comparison, pair: Compared, label: str, last: float | None) -> list[Any]:
    e, amounts = pair.effect, traffic(pair)
    times: list[Any] = [e.candidate_ns / 1e6, rounded(e.speedup), rounded(e.low), rounded(e.high)] if e else [None] * 4
    step = rounded(last / e.candidate_ns) if last and e else None
    if comparison.other_gpu is not None:
        times[1:], step = [None] * 3, None
    ratios: list[float | None] = [None, None]
    if amounts and pair.after.time_ns:
        more = amounts[1] / amounts[0]
        ratios = [rounded(more), rounded(more * pair.before.time_ns / pair.after.time_ns)]
    name = short(pair.pair.after[0]) if pair.pair.how not in ("group", "same name") else short(label)
    row = [comparison.after.name, name, *times, pair.verdict, pair.work.answer, step]
    return [*row, *_bandwidth(comparison, amounts, 1, pair.after.time_ns), *ratios]


def _bandwidth(comparison: Comparison, amounts: tuple[float, float] | None, side: int, time_ns: float) -> list[Any]:
    limits = comparison.ceilings[side]
    peak = limits.value("hbm.bw") if limits is not None else None
    if not amounts or not time_ns:
        return [None, None, None]
    rate = amounts[side] / time_ns
    return [rounded(amounts[side]), rounded(rate), rounded(100 * rate / peak) if peak else None]


_KERNELS = {"summary": 5, "full": 50}
_SERIES = 20


class CompareResult(Result):
    """What changed between workloads; the verdict is that of the pair that takes most of the baseline's time.

    improved and regressed are said of the same work only; ``kernels`` has every pair with its own verdict.
    """

    baseline: str
    candidates: list[str]
    verdict: str
    same_work: str
    summary: str
    kernels: Table
    work: Table | None = None
    explanation: Table | None = None
    metrics: Table | None = None
    normalised: Table | None = None
    only_in_baseline: list[str] = []
    only_in_candidate: list[str] = []
    logged: str | None = None


def compare_workloads(
    store: Store,
    baseline: str,
    candidate: str | list[str],
    kernel: str | None = None,
    group: Annotated[
        dict[str, list[str]] | None, Field(description='{"name": ["regex before", "regex after"]}')
    ] = None,
    hypothesis: str | None = None,
    change: str | None = None,
    detail: Literal["summary", "full"] = "summary",
) -> CompareResult:
    """Compare versions: times with 95 % interval and verdict, same work or not, what the change of time consists of,
    changed metrics. group: several kernels against one. hypothesis and change go to the log."""
    before = Workload.open(store, baseline)
    wanted = [candidate] if isinstance(candidate, str) else list(candidate)
    if not 1 <= len(wanted) <= _SERIES:
        raise BadArgument(f"candidate names {len(wanted)} workloads", fix=f"Name 1 to {_SERIES}")
    after = [Workload.open(store, word) for word in wanted]
    limit = _KERNELS[detail] if len(after) == 1 else 1
    found = [compare(before, m, kernel=kernel, groups=group, limit=limit) for m in after]
    result = _pair(store, found[0], detail) if len(found) == 1 else _series(before, found)
    if hypothesis or change:
        _log(store, found, hypothesis, change, result)
    return result


def _pair(store: Store, found: Comparison, detail: str) -> CompareResult:
    first = _first(found)
    top = found.pairs[: 1 if detail == "summary" else 5]
    alike = found.other_gpu is None
    return CompareResult(
        baseline=found.before.id,
        candidates=[found.after.id],
        verdict=first.verdict if first else "inconclusive",
        same_work=first.work.answer if first else "unknown",
        summary=pair_summary(found, first),
        kernels=kernels(found),
        work=work(top, detail) if alike else None,
        explanation=explanation(top) if alike else None,
        normalised=None if alike else normalised(found),
        metrics=metrics(found, top, detail),
        only_in_baseline=named(found.matching.only_before),
        only_in_candidate=named(found.matching.only_after),
        notes=pair_notes(found),
        next=next_calls(found, first),
    )


def _series(before: Workload, found: list[Comparison]) -> CompareResult:
    last = _first(found[-1])
    return CompareResult(
        baseline=before.id,
        candidates=[c.after.id for c in found],
        verdict=last.verdict if last else "inconclusive",
        same_work=last.work.answer if last else "unknown",
        summary=series_summary(found),
        kernels=steps(found),
        notes=series_notes(found),
        next=next_calls(found[-1], last),
    )


def _first(found: Comparison) -> Compared | None:
    return max(found.pairs, key=lambda p: p.share, default=None)


def _log(
    store: Store, found: list[Comparison], hypothesis: str | None, change: str | None, result: CompareResult
) -> None:
    """Note what was tried and what came of it; where the store may only be read, say that it was not noted."""
    if store.read_only:
        result.notes.append("Not noted in the experiment log: the store is open for reading only.")
        return
    for comparison in found:
        done = experiments.record(
            store,
            Entry(
                kind="comparison",
                workload=comparison.after.id,
                baseline=comparison.before.id,
                hypothesis=noted(hypothesis),
                change=noted(change),
                outcomes=[_outcome(pair, comparison.other_gpu is not None) for pair in comparison.pairs],
            ),
        )
        result.logged = done.id


def _outcome(found: Compared, other_gpu: bool) -> Outcome:
    effect = None if other_gpu else found.effect
    return Outcome(
        kernel=found.pair.label,
        kernels=list(dict.fromkeys((*found.pair.before, *found.pair.after))),
        verdict=found.verdict,
        why=found.why,
        speedup=effect.speedup if effect else None,
        low=effect.low if effect else None,
        high=effect.high if effect else None,
        same_work=found.work.answer,
    )
