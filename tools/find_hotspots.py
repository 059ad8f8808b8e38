"""find_hotspots: the lines and instructions of a kernel that take the time, why they wait, and for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import PurePosixPath
from typing import Any, Literal

from ..analysis.base.database import sql_literal
from ..analysis.base.kernel_names import short
from ..analysis.base.problems import NotFound
from ..analysis.base.text import count_text
from ..analysis.hotspots.code import InstructionKey, SourceLine, advice, classes, read
from ..analysis.hotspots.kernels import HotKernel, launches_of, sampled_kernels, select_kernels
from ..analysis.hotspots.ranking import FEW, HotLoop, Ranking, Spot, rank, reasons
from ..analysis.store.store import Store
from ..analysis.tables.derived import table_rows
from ..analysis.timeline.host_findings import name
from ..analysis.timeline.host_limits import host_limits
from ..analysis.timeline.host_tree import host_tree
from ..analysis.workload import Workload
from .answers.next_calls import next_call
from .answers.sentences import optional_sentence, present, sentence
from .answers.source_text import source_lines
from .answers.tables import Row, table_from
from .base.parameters import Detail, Pattern, Reference
from .base.results import NextCall, Result, Table, table

_SHOWN_KERNELS, _LISTED = 5, 8
_LEAST_PCT = 0.5
"""Places with a smaller share, in percent, are omitted from a summary."""
_REASONS = 3
_LEAST_REASON_PCT = 5
_CLASSES = 4
"""The maximum number of reasons and instruction classes in the split of all samples."""
_EXPLAINED = 0.05
"""A reason is explained if it has at least this share of the samples."""
_COUNTED = 1000
"""With fewer samples of a kernel, rows state their number of samples."""
_MOST_KNOWN = 99.0
_MOVED = 0.05
"""Waits that are charged to other places are reported if they have at least this share of the samples."""
_INTERVAL = "pc_sampling_interval_"
"""Prefix of the names of the facts that state the sampling interval; the unit follows it."""
_TEXT = 100
"""The maximum number of characters of source text in a row of a summary."""


class HotspotsResult(Result):
    """The places of one kernel by cost. Shares refer to its samples; a wait is charged to what it waits for."""

    workload: str
    name: str
    kernel: str | None = None
    """None with by="host_line", which is about the host."""
    number: str | None = None
    samples: int
    launches_sampled: int = 0
    launches: int | None
    with_line_pct: float | None
    """The percentage of the cost at places with a source line."""
    hotspots: Table
    loops: Table = table({}, [])
    source: Table = table({}, [])
    kernels: Table = table({}, [])
    device: Table = table({}, [])
    """With by="host_line": device time by the line that launched it."""


def find_hotspots(
    store: Store,
    workload: Reference = "latest",
    kernel: Pattern | None = None,
    by: Literal["line", "instruction", "host_line"] = "line",
    top_n: int = 10,
    context: int = 0,
    detail: Detail = "summary",
) -> HotspotsResult:
    """The source lines or instructions of a kernel that take the time, and what they wait for: shares with intervals,
    stall reasons, executions, excess bytes, spills, loops."""
    with Workload.open(store, workload) as opened:
        if by == "host_line":
            return _host_lines(opened, top_n, full=detail == "full")
        every = sampled_kernels(opened)
        chosen = select_kernels(every, kernel, opened.name)
        one = chosen[0]
        if one.launch is not None and one.launch not in (known := launches_of(opened, one.kernel)):
            rank_of, told = one.number.partition(".")[0], known[:_LISTED]
            raise NotFound(
                f"#{one.number} has no samples and no counts per instruction in {opened.name!r}",
                f"These parts of #{rank_of} have: {', '.join(f'#{rank_of}.{n}' for n in told) or 'none by itself'}",
            )
        ranking = rank(read(opened, one.kernel, one.launch), by)
        return _RankingText(opened, one, ranking, full=detail == "full").result(chosen, top_n, context)


def _host_lines(opened: Workload, top_n: int, *, full: bool) -> HotspotsResult:
    """The lines of the host that devices wait for, and those that launched the work of the devices."""
    waits, launches = table_rows(opened, "host_lines"), table_rows(opened, "device_lines")
    if not waits:
        raise NotFound(
            f"{opened.name!r} has no code of the host",
            "it comes from runs of profile_command with a timeline, from torch.profiler with with_stack=True, and from "
            "files of samplers of the host (py-spy, perf, Nsight Systems and others)",
        )

    def shown(table: str, rows: list[Row]) -> Table:
        return table_from(table, rows[:top_n], len(rows), full=full)

    # Functions that only call others come first in the table, but are no place to look.
    manifest = opened.manifest
    by = next((c for c in ("idle_ns", "self_ns") if waits[0].get(c) is not None), "self_samples")
    wanted = waits if full else sorted(waits, key=lambda row: -(row[by] or 0))
    first, total = wanted[0], sum(row[by] or 0 for row in waits)
    answer = sentence("hotspots.host_none")
    if by != "idle_ns":
        what = {"self_ns": "time", "self_samples": "samples"}[by]
        pct = 100 * (first[by] or 0) / max(total, 1)
        answer = sentence("hotspots.host_alone", place=_host_place(first), pct=pct, what=what, own=_own_code(opened))
    elif first[by]:
        answer = sentence(
            "hotspots.host",
            place=_host_place(first),
            idle=first[by] / 1e9,
            pct=100 * first[by] / total,
            time=first["self_ns"] / 1e9,
        )
    for place, pct in _sums((_host_place(row), row["share_pct"] or 0) for row in launches if row["file"])[:1]:
        answer += sentence("hotspots.host_launch", place=place, pct=pct)
    return HotspotsResult(
        answer=answer,
        workload=manifest.id,
        name=manifest.name,
        samples=0,
        launches=None,
        with_line_pct=None,
        hotspots=shown("host_lines", wanted),
        device=shown("device_lines", launches),
        notes=host_limits(opened),
        next=[next_call("compute_timeline", "what the program gains without them", workload=manifest.id)]
        if manifest.events
        else [],
    )


def _own_code(opened: Workload) -> str:
    """Return a sentence on the line of the program's own code with most time or samples; empty if it has none."""
    tree = host_tree(opened)
    if tree is None:
        return ""
    sums = tree.own_sums(tree.cells.time)
    most = tree.frames[int(sums.argmax())]
    return sentence("hotspots.host_own", place=name(most), pct=100 * float(sums.max() / sums.sum())) if most.own else ""


def _host_place(row: Mapping[str, Any]) -> str:
    """A function with its file and line."""
    if row["file"] is None:
        return str(row["function"])
    return f"{row['function']} ({PurePosixPath(row['file']).name}:{row['line']})"


class _RankingText:
    """The ranking of one kernel as text."""

    def __init__(self, opened: Workload, one: HotKernel, ranking: Ranking, *, full: bool) -> None:
        self.opened, self.one, self.ranking, self.full = opened, one, ranking, full
        self.files = {spot.line.file for spot in ranking.spots} - {None}
        self.at = {i.key: i for i in ranking.code.instructions}
        self.unshown: dict[str, SourceLine] = {}
        """Reason why source text is not shown -> the first line that is affected."""

    def result(self, chosen: Sequence[HotKernel], top_n: int, context: int) -> HotspotsResult:
        ranking, manifest = self.ranking, self.opened.manifest
        least = 0.0 if self.full else _LEAST_PCT
        worth = [spot for spot in ranking.spots if (ranking.share_pct(spot.cost) or 0) >= least] or ranking.spots[:1]
        spots = worth[:top_n]
        lined = ranking.share_pct(ranking.cost_with_line)
        return HotspotsResult(
            answer=self._answer(spots),
            workload=manifest.id,
            name=manifest.name,
            kernel=self.one.kernel,
            number=self.one.number,
            samples=ranking.code.sample_count,
            launches_sampled=ranking.code.launches,
            launches=self.one.launches,
            with_line_pct=None if lined is None else round(lined, 1),
            hotspots=self._hotspots(spots, len(ranking.spots)),
            loops=self._loops([*map(ranking.loop_of, spots)]),
            source=self._source(spots, context),
            kernels=self._kernels(chosen),
            notes=present(*self._notes(len(spots), len(worth))),
            next=[*self._next()],
        )

    def _answer(self, spots: Sequence[Spot]) -> str:
        """Say where the most time is spent, and why."""
        kernel, ranking = short(self.one.kernel), self.ranking
        pct = ranking.share_pct(spots[0].cost) if spots else None
        if pct is None:
            return sentence("hotspots.none", kernel=kernel)
        return sentence(
            "hotspots.line",
            place=self._name(spots[0]),
            pct=float(f"{pct:.3g}"),
            what=ranking.unit,
            kernel=kernel,
            interval=optional_sentence("hotspots.interval", interval=self._interval(spots[0])),
            why=optional_sentence("hotspots.why", why=self._why(spots[0])),
        )

    # -- rows ------------------------------------------------------------------------------------------

    def _hotspots(self, spots: Sequence[Spot], total: int) -> Table:
        texts, ranking = self._texts([spot.line for spot in spots]), self.ranking
        sampled, cycles = ranking.unit == "samples", ranking.unit == "cycles"
        counted, moved = sampled and ranking.total < _COUNTED, sampled and self._moved_share() >= _MOVED
        rows: list[Row] = [
            {
                "spot": spot,
                "line": self._place(spot.line),
                # If a line has several instructions, the text is shown with the first.
                "source": texts.get(spot.line) if self.full else texts.pop(spot.line, None),
                "inlined": self._inlining_calls(spot),
                "pct": ranking.share_pct(spot.cost),
                "interval": self._interval(spot),
                "why": self._why(spot),
                "instruction": self._instruction(spot.main),
                "samples": spot.cost if counted else None,
                "found_here": ranking.share_pct(spot.here) if moved else None,
                "hidden": spot.hidden_pct if cycles else None,
                "waits": self._waits(spot),
                "loop": None if (loop := ranking.loop_of(spot)) is None else f"L{loop + 1}",
            }
            for spot in spots
        ]
        made = table_from("hotspots", rows, total)
        unit = f"bytes, sum over {count_text(ranking.code.launches, 'launch')}"
        made.units = [unit if n.endswith("_bytes") else u for n, u in zip(made.columns, made.units, strict=True)]
        return made

    def _place(self, line: SourceLine) -> str | None:
        """File and line, with the folder if two files have the same name, or with detail="full"."""
        if line.file is None or line.number is None:
            return None
        name = PurePosixPath(line.file).name
        same = sum(PurePosixPath(file or "").name == name for file in self.files)
        return f"{line.file if self.full or same > 1 else name}:{line.number}"

    def _name(self, spot: Spot) -> str:
        return self._place(spot.line) or self._instruction(spot.main)

    def _inlining_calls(self, spot: Spot) -> str | None:
        """The calls that lead to inlined code, outermost first; they show where a helper is used."""
        chain = self.at[spot.main].inlined
        if chain is None or self.full:
            return chain
        calls = (call.rpartition("at ") for call in chain.split(" > "))
        return _cut_text(" > ".join(f"{function}at {PurePosixPath(place).name}" for function, _, place in calls), _TEXT)

    def _instruction(self, key: InstructionKey) -> str:
        return f"{'' if key.offset is None else f'0x{key.offset:x} '}{key.text or '?'}"

    def _interval(self, spot: Spot) -> str | None:
        interval = self.ranking.interval(spot)
        return None if interval is None else f"{interval.low:.3g}-{interval.high:.3g}"

    def _why(self, spot: Spot) -> str | None:
        shares = [(100 * n / spot.cost, reason) for reason, n in spot.reasons.items() if reason and spot.cost]
        shares.sort(reverse=True)
        named = [(share, reason) for share, reason in shares[:_REASONS] if share >= _LEAST_REASON_PCT]
        return ", ".join(f"{reason} {share:.0f} %" for share, reason in named or shares[:1]) or None

    def _waits(self, spot: Spot) -> str | None:
        """The other places where waits for this place were sampled, or that this place waits for."""
        by_line, least, parts = self.ranking.by == "line", _LEAST_REASON_PCT / 100 * max(spot.cost, spot.here), []
        for verb, keys in (("seen at", spot.shows), ("for", spot.waits_for)):
            places = _sums(
                ((by_line and self._place(self.at[key].line)) or self._instruction(key), n) for key, n in keys.items()
            )
            if named := [place for place, n in places if n >= least]:
                parts.append(f"{verb} {', '.join(named[:2])}")
        return "; ".join(parts) or None

    def _loops(self, used: Sequence[int | None]) -> Table:
        rows = [
            {"loop": loop, "name": f"L{n + 1}", "lines": self._span(loop), "share": self.ranking.share_pct(loop.cost)}
            for n, loop in enumerate(self.ranking.loops)
            if n in used
        ]
        return table_from("hot_loops", rows)

    def _span(self, loop: HotLoop) -> str:
        code = f"0x{loop.loop.first:x}-0x{loop.loop.last:x}"
        if loop.lines is None:
            return code
        first, last = loop.lines
        return f"{self._place(first)}{f'-{last.number}' if first != last else ''}, {code}"

    def _kernels(self, chosen: Sequence[HotKernel]) -> Table:
        """The other selected kernels, each with its hottest place."""
        rows = []
        for one in [one for one in chosen if one.kernel != self.one.kernel][:_SHOWN_KERNELS]:
            hottest = None
            ranking = rank(read(self.opened, one.kernel, one.launch), self.ranking.by) if one.small else None
            if ranking and ranking.spots:
                first = ranking.spots[0]
                self.files |= {first.line.file} - {None}
                hottest = f"{self._name(first)} {ranking.share_pct(first.cost) or 0:.0f} %"
            samples = one.samples if self.opened.has("samples") else None
            rows.append({"of": one, "number": f"#{one.number}", "samples": samples, "hottest": hottest})
        return table_from("hot_kernels", rows, len(chosen) - 1)

    # -- source text -----------------------------------------------------------------------------------

    def _texts(self, lines: Sequence[SourceLine]) -> dict[SourceLine, str]:
        """The source text of some lines: from the profile, or else from files that the user allowed."""
        wanted = list(dict.fromkeys(line for line in lines if line.file is not None and line.number is not None))
        carried = self._carried_source(wanted)
        for line in wanted:
            if line not in carried:
                read_now = source_lines(line.file or "", line.number or 0)
                carried |= {SourceLine(line.file, number): text for number, text in read_now.lines.items()}
                if read_now.reason:
                    self.unshown.setdefault(read_now.reason, line)
        limit = None if self.full else _TEXT
        return {line: _cut_text(text.strip(), limit) for line, text in carried.items()}

    def _carried_source(self, lines: Sequence[SourceLine]) -> dict[SourceLine, str]:
        """The source text in the profile."""
        if not lines or not self.opened.has("source_lines"):
            return {}
        pairs = ", ".join(f"({sql_literal(line.file or '')}, {line.number:d})" for line in lines)
        rows = self.opened.rows(
            f'SELECT source_file, source_line, "text" FROM {self.opened.relation("source_lines")} '
            f"WHERE (source_file, source_line) IN ({pairs})"
        )
        return {SourceLine(file, number): text for file, number, text in rows}

    def _source(self, spots: Sequence[Spot], context: int) -> Table:
        """The lines around the first place, from the profile."""
        around = [
            SourceLine(spot.line.file, n)
            for spot in spots[:1]
            if context and spot.line.number is not None
            for n in range(max(1, spot.line.number - context), spot.line.number + context + 1)
        ]
        texts = self._texts(around)
        return table_from("source", [{"line": each.number, "text": texts[each]} for each in around if each in texts])

    # -- notes -----------------------------------------------------------------------------------------

    def _notes(self, shown: int, worth: int) -> Iterator[str]:
        ranking, code = self.ranking, self.ranking.code
        if ranking.unit == "cycles":
            yield sentence("places.cycles")
            yield from self._waves()
        elif ranking.unit == "executions":
            yield sentence("places.executed" if ranking.total else "places.nothing")
        elif code.sample_count < FEW:
            facts = self.opened.manifest.facts.items()
            intervals = [f" than {n:,.0f} {fact.removeprefix(_INTERVAL)}" for fact, n in facts if _INTERVAL in fact]
            yield sentence("places.few", samples=code.sample_count, intervals="".join(intervals))
        elif ranking.unsure():
            yield sentence("places.unsure")
        yield from self._in_all()
        lined = ranking.share_pct(ranking.cost_with_line)
        if lined is not None:
            yield optional_sentence("places.without_line", few=lined < 50)
            manifest = self.opened.manifest
            bare = [spot.cost for spot in ranking.spots if spot.line.number is None and spot.main.text]
            lacking = ranking.share_pct(sum(bare)) or 0.0
            yield from [note.text for note in advice(manifest, {self.one.kernel: lacking}, manifest.dispatches)]
            yield optional_sentence("places.unknown_code", unknown=lined + lacking < _MOST_KNOWN)
        moved = self._moved_share()
        yield optional_sentence("places.moved", share=moved if moved >= _MOVED else 0, unit=ranking.unit)
        for reason, line in [*self.unshown.items()][:1]:
            yield sentence("places.no_source", place=self._place(line), reason=reason)
        yield optional_sentence("places.more", count=worth - shown, least=_LEAST_PCT)
        yield optional_sentence("places.small", count=len(ranking.spots) - worth, least=_LEAST_PCT)
        known, least = reasons(), _EXPLAINED * ranking.total
        told = {r for spot in ranking.spots[:shown] for r, n in spot.reasons.items() if n and n >= least}
        yield from [f"{name}: waits for {one.title}." for name, one in known.items() if name in told and one.waits]
        last = any(one.key.text == "s_endpgm" and one.sample_count > least for one in code.instructions)
        yield optional_sentence("places.end_of_program", last=last)

    def _waves(self) -> Iterator[str]:
        """What the waves of a thread trace covered of each other, and how many were resident on a SIMD."""
        ranking = self.ranking
        if ranking.hidden is None or not ranking.total:
            return
        share, more = ranking.hidden / ranking.total, optional_sentence("places.resident", waves=self._resident_waves())
        yield sentence("places.hidden", hidden=share, exposed=1 - share, more=more)

    def _resident_waves(self) -> float | None:
        """The mean number of waves on a SIMD while it had any; None if the table waves lacks the kernel."""
        if not self.opened.has("waves"):
            return None
        rows = (
            f"SELECT start_cycle AS s, end_cycle AS e, dispatch_id, shader_engine, cu, simd FROM "
            f"{self.opened.relation('waves')} WHERE kernel = {sql_literal(self.one.kernel)} AND end_cycle IS NOT NULL"
        )
        place = "PARTITION BY dispatch_id, shader_engine, cu, simd ORDER BY s, e"
        ahead = f"max(e) OVER ({place} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        ((waves, busy),) = self.opened.rows(
            f"SELECT sum(e - s), sum(greatest(e - greatest(s, coalesce(ahead, s)), 0)) "
            f"FROM (SELECT *, {ahead} AS ahead FROM ({rows}))"
        )
        return float(waves / busy) if busy else None

    def _moved_share(self) -> float:
        """The share of the samples that were taken elsewhere than at the place that they are charged to."""
        return sum(sum(spot.shows.values()) for spot in self.ranking.spots) / (self.ranking.total or inf)

    def _in_all(self) -> Iterator[str]:
        """The samples of the kernel by reason, and by the class of the instruction that they are charged to."""
        ranking = self.ranking
        if ranking.unit != "samples" or not ranking.total:
            return
        known, spots = classes(), ranking.spots
        by_reason = _sums((reason, n) for spot in spots for reason, n in spot.reasons.items() if reason)
        parts = ((known[self.at[key].kind or "other"].title, n) for spot in spots for key, n in spot.parts.items())
        for code, sums in (
            ("places.by_reason" if by_reason else "places.no_reasons", by_reason),
            ("places.by_class", _sums(parts)),
        ):
            shares = [(name, 100 * n / ranking.total) for name, n in sums[:_CLASSES]]
            yield sentence(code, shares=[f"{name} {share:.0f} %" for name, share in shares if share >= 1])

    def _next(self) -> Iterator[NextCall]:
        """Suggest the next calls, built from ids, ranks and closed sets only."""
        arguments = {"workload": self.opened.id, "kernel": f"#{self.one.number}"}
        if self.ranking.by == "line" and self.ranking.cost_with_line:
            yield next_call("find_hotspots", "the instructions behind these lines", **arguments, by="instruction")
        if self.opened.manifest.counters:
            yield next_call("diagnose_bottleneck", "which subsystem limits the kernel, and what to try", **arguments)


def _sums(amounts: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return each name with the sum of its amounts, the largest first."""
    sums: dict[str, float] = defaultdict(float)
    for named, amount in amounts:
        sums[named] += amount
    return sorted(sums.items(), key=lambda item: -item[1])


def _cut_text(text: str, limit: int | None) -> str:
    return text if limit is None or len(text) <= limit else f"{text[: limit - 3]}..."
