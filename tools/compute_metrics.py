"""compute_metrics: the metrics of the catalogue for one workload, overall or per kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ..analysis.base.kernel_names import short
from ..analysis.base.problems import BadArgument
from ..analysis.base.text import count_text, first_few
from ..analysis.catalogue import metrics as catalog
from ..analysis.catalogue import targets
from ..analysis.catalogue.counter_names import why_not_countable
from ..analysis.catalogue.formula import references
from ..analysis.catalogue.search import known_words
from ..analysis.counter_check import check_records
from ..analysis.counter_check.check_records import MetricCheck
from ..analysis.engine import evaluation as engine
from ..analysis.engine import launching_ranges
from ..analysis.engine.compile import scattered_figures
from ..analysis.engine.evaluation import FigureRequest
from ..analysis.engine.time_shares import share_pct, shares_by_time
from ..analysis.rooflines.ceilings import contradicted_facts, empirical_ceilings
from ..analysis.store.store import Manifest, Store
from ..analysis.workload import Selection, Workload
from .answers.launch_notes import about
from .answers.metric_summary import Brief, asked_for_presets, brief, fold_channels
from .answers.next_calls import next_call
from .answers.sentences import optional_sentence, present, sentence, value_text
from .answers.tables import Row, table_from
from .base.parameters import (
    Dispatches,
    Pattern,
    Reference,
    SomeMetrics,
)
from .base.results import NextCall, Result, Table, TextBlock, round_number

_CLOCKS = {"max_sclk": "clock", "max_mclk": "memory clock", "max_sclk_matrix": "clock of matrix work"}
_WITHOUT = {
    "not_collected": "have no value; the column reason says why",
    "undefined": "are 0/0: what they are a share of was counted and did not occur",
}
_IN_ONE_PASS = 8
_FEW = 6
"""Figures that the first sentence states one by one."""
_LISTED = 12
"""Names of metrics without a row that the text lists."""
_SHOWN = 4
By = Literal["kernel", "launch", "operator", "range", "range_name", "all"]
_PARTS: dict[By, launching_ranges.ProgramPart] = {"operator": "operator", "range": "range", "range_name": "range_name"}


class MetricsResult(Result):
    """Figures of one workload; ``avg`` follows the aggregation, the other statistics are per dispatch.

    In the summary of a preset, ``zeros`` lists the metrics that were counted and are 0, ``without_value`` those without
    a value, by status; the table contains the others.
    """

    workload: str
    name: str
    arch: str | None
    normalization: str
    aggregation: str
    table: Table
    channels: Table | None = None
    """In a summary: metrics of single L2 channels, one row for all channels; detail="full" lists each channel."""
    zeros: list[str] = []
    without_value: dict[str, list[str]] = {}

    def blocks(self) -> list[TextBlock]:
        """Return what the figures refer to, the tables, and the names of metrics without a row."""
        per = "per launch" if self.normalization == "per_kernel" else self.normalization.replace("_", " ")
        code = "metrics.workload" if self.arch else "metrics.workload_of_unknown"
        about = [sentence(code, result=self), sentence("metrics.counts", per=per, result=self)]
        names = {"zero": self.zeros, **self.without_value}
        without = [f"{s.replace('_', ' ')}: {first_few(listed, _LISTED)}" for s, listed in names.items() if listed]
        return [
            TextBlock("", about),
            TextBlock("table", self.table),
            TextBlock("channels", self.channels or []),
            TextBlock("without a row", without),
        ]


def compute_metrics(
    store: Store,
    workload: Reference,
    metrics: SomeMetrics = ["overview"],  # noqa: B006
    kernel: Pattern | None = None,
    by: By | None = None,
    by_kernel: bool = False,
    dispatches: Dispatches = None,
    normalization: Literal["per_kernel", "per_wave", "per_cycle", "per_second"] = "per_kernel",
    aggregation: Literal["sum_ratio", "mean"] = "sum_ratio",
    detail: Literal["summary", "full"] = "summary",
    order_by: Reference | None = None,
    total: bool = False,
    limit: int = 60,
    offset: int = 0,
) -> MetricsResult:
    """Metrics of a workload (bandwidths, hit rates, stalls, ...) with unit, peak, status and reason. Start with
    overview."""
    by, unknown = by or ("kernel" if order_by or by_kernel else None), dict[str, str]()
    _check_choices(by, by_kernel, total and (normalization, aggregation) != ("per_kernel", "sum_ratio"))
    part = _PARTS.get(by) if by else None
    view = FigureRequest(
        kernel, dispatches, by in ("kernel", "launch"), normalization, aggregation, detail == "full", part
    )
    with Workload.open(store, workload, kernel, "launch" if by == "launch" else "kernel") as opened:
        opened.borrow_formulas()
        if opened.arch in catalog.targets_with_metrics():
            metrics, unknown = known_words(opened.arch, [*metrics, *([order_by] if order_by else [])])
            if kernel is not None and by is None and len(opened.select(kernel, dispatches).kernels) > 1:
                view = replace(view, by_kernel=True)
        figures, selection = engine.figures(opened, metrics, view), opened.select(kernel, dispatches)
        of_time = _shares_of_time(opened, figures, view)
        numbers = _launch_numbers(opened, selection) if view.by_kernel and opened.by == "launch" else {}
        named = selection.kernels if view.by_kernel or kernel else []
        about_launches = about(opened, "compute_metrics", selection, named)
        sources = [*_source_notes(opened, figures)]
        left_out = launching_ranges.left_out(opened, selection, part) if part else 0
    if order_by:
        figures = _largest_first(figures, order_by, total=total)
    manifest = opened.manifest
    checked = check_records.known_checks(store, manifest)
    shown, channels = (figures, None) if view.quartiles else fold_channels(figures, metrics)
    short = brief(shown) if not view.quartiles and asked_for_presets(metrics) else Brief(shown)
    rows = _rows(short, of_time, numbers, checked, total)
    return MetricsResult(
        answer=_answer(figures, _scope(manifest, kernel, len(selection.kernels))),
        workload=manifest.id,
        name=manifest.name,
        arch=manifest.arch,
        normalization=normalization,
        aggregation=aggregation,
        table=_figure_table(rows, short, view, limit, offset),
        channels=channels,
        zeros=short.zeros,
        without_value=short.without_value,
        notes=present(
            *list(unknown.values())[:_SHOWN],
            optional_sentence("metrics.more_unknown", more=max(len(unknown) - _SHOWN, 0)),
            *_notes(manifest, figures, short, metrics, checked),
            *sources,
            _by_time(of_time, folded=short.folded),
            *_row_notes(part, left_out),
            optional_sentence("metrics.total", total=total),
            *about_launches.notes,
        ),
        next=[
            *about_launches.next,
            *_next(manifest, figures, metrics if short.folded else [], by is None and kernel is None),
        ],
    )


def _figure_table(rows: list[Row], short: Brief, view: FigureRequest, limit: int, offset: int) -> Table:
    """Return one page of the rows; a summary has no kernel if all kernels are together."""
    without = () if not short.folded or any(f.kernel for f in short.figures) else ("kernel",)
    made = table_from("figures", rows, full=view.quartiles, without=without, limit=limit, offset=offset)
    if view.launched_by:
        made.columns = [view.launched_by.partition("_")[0] if name == "kernel" else name for name in made.columns]
    return made


def _row_notes(part: launching_ranges.ProgramPart | None, left_out: int) -> list[str]:
    """Return notes on what rows for ranges contain, and on ranges that are omitted."""
    ranges = part not in (None, "operator")
    return [
        optional_sentence("metrics.nested", part=ranges),
        optional_sentence("metrics.omitted", left_out=ranges and left_out),
    ]


def _shares_of_time(
    opened: Workload, figures: list[engine.Figure], view: FigureRequest
) -> list[tuple[engine.Figure, float]]:
    """Return percentages of cycles that are too low, because counting added cycles, each with its share of the time."""
    added = any(doubt.code == "clock" for doubt in opened.doubts.known)
    return [(f, pct) for f, pct in shares_by_time(opened, figures, view) if pct] if added else []


def _launch_numbers(opened: Workload, selection: Selection) -> dict[str, str]:
    """Return the number that selects each launch configuration."""
    return {name: f"#{opened.kernels[name].number}" for name in selection.kernels}


def _check_choices(by: By | None, by_kernel: bool, ratio_of_totals: bool) -> None:
    """Refuse choices that contradict each other."""
    if by_kernel and by != "kernel":
        raise BadArgument(f"by={by!r} and by_kernel exclude each other", fix="Omit by_kernel")
    if ratio_of_totals:
        raise BadArgument("total needs counts per launch", fix="Omit normalization and aggregation")


def _scope(manifest: Manifest, kernel: str | None, kernels: int) -> str:
    """The workload, the kernel, or how many kernels a pattern fits."""
    if kernel is None:
        return manifest.name
    wording = "metrics.kernel" if kernels == 1 else "metrics.kernels"
    return sentence(wording, kernel=kernel, name=manifest.name, count=kernels)


def _answer(figures: list[engine.Figure], scope: str) -> str:
    """State the figure if there is only one, otherwise how many have a value."""
    valued = [f for f in figures if f.value is not None]
    if 1 < len(figures) <= _FEW and len({f.kernel for f in figures}) == 1 and valued:
        values = ", ".join(f"{f.name} {value_text(f.value, f.unit)}" for f in valued)
        without = optional_sentence("metrics.lacking", count=len(figures) - len(valued))
        return sentence("metrics.few", scope=scope, values=values, without=without)
    if len(figures) != 1:
        return sentence("metrics.several", valued=len(valued), count=len(figures), scope=scope)
    figure = figures[0]
    scope = short(figure.kernel) if figure.kernel else scope
    reason = figure.reason.text if figure.reason else figure.status
    if figure.value is None:
        return sentence("metrics.without", f=figure, scope=scope, reason=reason)
    peak = "" if figure.pct_of_peak is None else sentence("metrics.of_peak", f=figure)
    doubt = "" if figure.status == "ok" else sentence("metrics.doubt", status=figure.status, reason=reason)
    unit = f" {figure.unit}" if figure.unit else ""
    return sentence("metrics.one", f=figure, scope=scope, unit=unit, of_peak=peak, doubt=doubt)


def _sum_launches(f: engine.Figure) -> float | None:
    """The sum of a count or a time over its launches, in the unit of the figure; None for ratios."""
    is_sum = f.metric.norm or (f.metric.unit == "ns" and f.metric.den is None)
    return f.value * f.n if is_sum and f.value is not None else None


def _largest_first(figures: list[engine.Figure], metric: str, *, total: bool) -> list[engine.Figure]:
    """Order figures by the value, or the ``total`` if it has one, of one metric of their kernel, the largest first;
    kernels without a value come last.

    Raises BadArgument if it is not one metric, such as a preset.
    """
    values = {f.kernel: (total and _sum_launches(f)) or f.value for f in figures if metric in (f.name, f.id)}
    if not values:
        raise BadArgument(f"order_by={metric!r} is not one metric of this GPU", fix="Give a name such as hbm.bw_gbs")
    return sorted(figures, key=lambda f: (values.get(f.kernel) is None, -(values.get(f.kernel) or 0.0)))


def _rows(
    short: Brief,
    timed: list[tuple[engine.Figure, float]],
    numbers: dict[str, str],
    checked: Mapping[str, MetricCheck],
    total: bool,
) -> list[Row]:
    """What the columns of each figure are taken from."""
    of_time = {_key(f): round_number(value, 4) if short.folded else value for f, value in timed}
    by_check = {
        name: "confirmed here" if known.verdict == "holds" else f"off here: {known.cause}"
        for name, known in checked.items()
    }
    # A figure of the whole selection has the number of its launch configuration, if the selection is only one.
    only = next(iter(numbers.values())) if len(numbers) == 1 else None
    return [
        {
            "figure": f,
            # In a summary the names imply the titles.
            "title": None if short.folded else f.metric.title,
            "number": numbers.get(f.kernel or "", only),
            "checked": by_check.get(f.metric.name),
            "of_time": of_time.get(_key(f)),
            "total": round_number(_sum_launches(f)) if total else None,
        }
        for f in short.figures
    ]


def _key(figure: engine.Figure) -> tuple[str | None, str | None, str]:
    """The key that identifies a figure within an answer."""
    return figure.kernel, figure.id, figure.name


def _notes(
    manifest: Manifest,
    figures: list[engine.Figure],
    short: Brief,
    asked: list[str],
    checked: Mapping[str, MetricCheck],
) -> Iterator[str]:
    """Notes on the target and its peaks, on values that are missing or odd, and on what check_counters found."""
    for word in asked:
        # An id may mean two metrics, because a release of rocprof-compute renumbered its table.
        older = next((f.name for f in figures if f.id == word != f.metric.newer_id), None)
        newer = next((f.name for f in figures if f.metric.newer_id == word != f.id), None)
        yield optional_sentence("metrics.renumbered", word=word, older=older, newer=newer)
    gpu = targets.find_target(manifest.arch)
    if gpu is None and manifest.arch:
        nearest = targets.nearest(manifest.arch, catalog.targets_with_metrics())
        yield sentence("metrics.no_file", of=manifest, nearest=nearest, how=catalog.how_to_add(manifest.arch))
    if any(f.peak is not None for f in figures):
        read = references({f.metric.peak for f in figures if f.metric.peak and f.peak is not None}).values()
        facts = {name: fact.value for name, fact in (gpu.facts if gpu else {}).items()} | manifest.facts
        used = frozenset[str]().union(*read)
        clocks = [f"{_CLOCKS[n]} of {facts[n]:.0f} MHz" for n in _CLOCKS if n in used and n in facts]
        yield sentence("metrics.peaks", at=optional_sentence("metrics.nominal", at=" and ".join(clocks)))
    if gpu and not gpu.validated_on_hardware:
        yield sentence("metrics.not_on_hardware", gpu=gpu)
    for status, what in {} if short.folded else _WITHOUT.items():
        missing = sum(f.status == status for f in figures)
        yield optional_sentence("metrics.have_none", missing=missing, every=len(figures), what=what)
    for status in () if short.folded else ("impossible", "suspect"):
        odd = [f.name for f in figures if f.status == status]
        yield optional_sentence("metrics.odd", n=len(odd), status=status, names=first_few(odd, 5))
    for doubt in list(dict.fromkeys(f.reason for f in figures if f.reason and f.reason.code == "doubted"))[:_SHOWN]:
        yield sentence("metrics.doubted", why=doubt.text)
    yield optional_sentence("metrics.no_rates", no_timing=any(w.code == "no_timing" for w in manifest.warnings))
    names = list(dict.fromkeys(f.metric.name for f in figures if f.metric.name in checked))
    off = [name for name in names if checked[name].verdict == "off"]
    if names:
        yield sentence("metrics.confirmed", confirmed=len(names) - len(off))
    for name in off[:_SHOWN]:
        by = optional_sentence("metrics.off_by", factor=checked[name].factor)
        yield sentence("metrics.off", name=name, by=by, check=checked[name])


def _source_notes(workload: Workload, figures: Sequence[engine.Figure]) -> Iterator[str]:
    """Notes on figures that combine several runs of the program, on peaks of other facts than the data sheet states
    (which loads and rooflines use), and on ceilings that were measured besides the theoretical ones."""
    metrics = {f.name: f.metric for f in figures if f.value is not None}
    read = {name: catalog.counters(workload.arch, metric) for name, metric in metrics.items()}
    turns = list(dict.fromkeys(f.name for f in figures if f.over.combined))
    names = turns or list(scattered_figures(workload, read))
    code = "metrics.several_launches" if turns else "metrics.several_passes"
    yield optional_sentence(code, n=len(names), names=first_few(names, 3))
    if differing := contradicted_facts(workload):
        formulas = [formula for m in metrics.values() for formula in (m.peak, m.num) if formula]
        facts = frozenset[str]().union(*references(formulas).values())
        yield from [sentence("metrics.another_peak", said=said) for name, said in differing.items() if name in facts]
    shared = any(f.pct_of_peak is not None for f in figures)
    yield optional_sentence("metrics.theoretical_peaks", measured=shared and empirical_ceilings(workload) is not None)


def _by_time(computed: list[tuple[engine.Figure, float]], *, folded: bool) -> str:
    """A note that compares percentages of busy cycles with shares of the time, if collecting counters added cycles."""
    shares = [f"{f.name} {share_pct(f):.3g} -> {value:.3g} %" for f, value in computed]
    return optional_sentence("metrics.of_time" if folded else "metrics.more_cycles", shares=first_few(shares, _SHOWN))


def _collectable(target: str, figure: engine.Figure) -> bool:
    """Whether another profile could supply a missing figure: its counters exist and can be collected."""
    if figure.metric.imported_only or (figure.reason and figure.reason.code == "no_timing"):
        return False
    return not any(why_not_countable(target, counter) for counter in catalog.counters(target, figure.metric))


def _next(
    manifest: Manifest, figures: list[engine.Figure], presets: list[str], all_together: bool
) -> Iterator[NextCall]:
    if all_together and manifest.kernels > 1:
        why = f"the same per kernel ({count_text(manifest.kernels, 'kernel')})"
        yield next_call("compute_metrics", why, workload=manifest.id, by="kernel")
    if targets.find_target(manifest.arch) is None:
        # Nothing is known of the counters of a target without a file, so nothing can be planned for it.
        return
    wrong = [f.metric for f in figures if f.status == "impossible"]
    if impossible := list(dict.fromkeys(m.instead or m.name for m in wrong))[:_IN_ONE_PASS]:
        yield next_call("plan_profile", "the passes that collect these together", gpu=manifest.arch, metrics=impossible)
    wanted = [f.metric for f in figures if f.status == "not_collected" and _collectable(manifest.arch or "", f)]
    if lacking := list(dict.fromkeys(metric.name for metric in wanted)):
        why, metrics = "the passes that collect what is missing", presets or lacking[:_IN_ONE_PASS]
        yield next_call("plan_profile", why, gpu=manifest.arch, metrics=metrics)
