"""Compare every metric of a profile of known kernels with its expected value: ratio, verdict and likely cause."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

import pydantic

from ..catalogue import files, targets
from ..catalogue import metrics as catalog
from ..catalogue.files import CatalogueModel
from ..catalogue.formula import references
from ..catalogue.metrics import Metric
from ..catalogue.thresholds import threshold
from .known_kernels import KnownLaunch, solve_expressions

_MEANINGS = Path(__file__).with_name("meanings.toml")


class Meaning(CatalogueModel):
    """Expressions over quantities; the first one whose quantities a kernel states is used. See meanings.toml."""

    expressions: tuple[str, ...] = pydantic.Field(alias="is")
    within: float
    """Percent of the expected value; of a percentage, points."""
    needs: tuple[str, ...] = ()
    """Additional quantities that a kernel must state."""
    without: tuple[str, ...] = ()
    """Quantities that must be zero if a kernel states them."""
    only: tuple[str, ...] = ()
    """The kernels that it is checked against, if it does not hold for others."""

    def names(self, expression: str) -> frozenset[str]:
        """The quantities that a kernel must state for an expression."""
        return references([expression])[expression] | frozenset(self.needs)


@cache
def meanings(target: str) -> dict[str, Meaning]:
    """Metric -> its meaning, for the metrics of a target that have one, directly or through the metric that they
    repeat."""
    table = files.load(_MEANINGS)
    stated: dict[str, Any] = dict(table["meaning"])
    for some in table["targets"]:
        if targets.holds(some["gpus"], target):
            stated |= some["meaning"]
    default = table["within"]["default"]
    known = {name: _meaning(name, entry, default) for name, entry in stated.items()}
    return {
        metric.name: meaning
        for metric in catalog.metrics(target)
        if (meaning := known.get(metric.name) or known.get(metric.of or ""))
    }


def _meaning(name: str, entry: Any, default: float) -> Meaning:
    whole = dict(entry) if isinstance(entry, dict) else {"is": entry}
    if isinstance(whole["is"], str):
        whole["is"] = [whole["is"]]
    return files.validate_entry(Meaning, {"within": default, **whole}, f"The meaning of {name}")


MetricVerdict = Literal["holds", "off", "not_determined"]
_SAME = threshold("counter_check.same_cause")
_NOTHING = threshold("counter_check.nothing")


@dataclass(frozen=True)
class MeasuredMetric:
    """One figure of one kernel, as computed by the engine."""

    metric: str
    kernel: str
    value: float | None
    why: str = ""
    """The reason for a missing value."""


@dataclass(frozen=True)
class CheckedFigure:
    """One metric of one kernel: its expected and its measured value."""

    kernel: str
    expected: float
    measured: float
    holds: bool

    @property
    def ratio(self) -> float | None:
        """Measured divided by expected, or None if the expected value is zero."""
        return self.measured / self.expected if self.expected else None


@dataclass(frozen=True)
class MetricJudgement:
    """The verdict on one metric on this device."""

    metric: Metric
    verdict: MetricVerdict
    points: tuple[CheckedFigure, ...] = ()
    factor: float | None = None
    """The single factor by which all figures are off, if there is one."""
    cause: str = ""
    """The likely cause of a deviation, or the reason why nothing was determined."""

    @property
    def representative(self) -> CheckedFigure | None:
        """The kernel to show: the one with the largest deviation, or else the one with the largest expected value."""
        off = [point for point in self.points if not point.holds]
        return max(off or self.points, key=_distance if off else lambda p: abs(p.expected), default=None)


def judge_metrics(
    target: str, launches: Sequence[KnownLaunch], figures: Iterable[MeasuredMetric],
    inputs: Mapping[str, Mapping[str, float]], facts: Mapping[str, float],
) -> list[MetricJudgement]:  # fmt: skip
    """Judge every metric of a target, in the order of the catalogue.

    ``inputs`` are additional figures of single kernels: time_ns, cycles, mhz, and figures from their code.
    """
    by_metric: dict[str, dict[str, MeasuredMetric]] = {}
    for figure in figures:
        by_metric.setdefault(figure.metric, {})[figure.kernel] = figure
    known = meanings(target)
    expected = {
        launch.name: _expected_values(launch, known, {**facts, **inputs.get(launch.name, {})}) for launch in launches
    }
    return [
        _judge_metric(metric, known.get(metric.name), expected, by_metric.get(metric.name, {}), facts)
        for metric in catalog.metrics(target)
    ]


def _expected_values(
    launch: KnownLaunch, known: Mapping[str, Meaning], inputs: Mapping[str, float]
) -> dict[str, float]:
    """Metric -> its expected value for one launch, if known."""
    numbers = {**launch.quantities, **inputs, "lanes": float(launch.groups * launch.threads)}
    expressions = {}
    for name, meaning in known.items():
        if (meaning.only and launch.name not in meaning.only) or any(numbers.get(n) for n in meaning.without):
            continue
        usable = (e for e in meaning.expressions if meaning.names(e) <= numbers.keys())
        if expression := next(usable, None):
            expressions[name] = expression
    values = solve_expressions(expressions, numbers)
    return {name: value for name, value in values.items() if value is not None}


def _judge_metric(
    metric: Metric, meaning: Meaning | None, expected: Mapping[str, Mapping[str, float]],
    measured: Mapping[str, MeasuredMetric], facts: Mapping[str, float],
) -> MetricJudgement:  # fmt: skip
    if meaning is None:
        return MetricJudgement(metric, "not_determined", cause="no kernel has a known figure for it")
    expected_here = {kernel: values[metric.name] for kernel, values in expected.items() if metric.name in values}
    if not any(expected_here.values()):
        return MetricJudgement(metric, "not_determined", cause="no kernel that ran has a known nonzero figure for it")
    have = {k: m for k in expected_here if (m := measured.get(k)) and m.value is not None}
    if not any(expected_here[kernel] for kernel in have):
        why = next(
            (m.why for k in expected_here if (m := measured.get(k)) and m.why), "the profile has no figure for it"
        )
        return MetricJudgement(metric, "not_determined", cause=why)
    most = max(abs(m.value or 0) for m in have.values())
    points = []
    for kernel, figure in have.items():
        expected_value, value = expected_here[kernel], figure.value or 0.0
        holds = _fits(metric, meaning, expected_value, value, most)
        points.append(CheckedFigure(kernel, expected_value, value, holds))
    if all(point.holds for point in points):
        return MetricJudgement(metric, "holds", tuple(points))
    factor, cause = _cause(points, facts)
    return MetricJudgement(metric, "off", tuple(points), factor, cause)


def _fits(metric: Metric, meaning: Meaning, expected: float, value: float, most: float) -> bool:
    if metric.unit == "%":
        return abs(value - expected) <= meaning.within
    if expected == 0:
        return abs(value) <= _NOTHING * most
    return abs(value - expected) <= meaning.within / 100 * abs(expected)


def _distance(point: CheckedFigure) -> float:
    ratio = point.ratio
    return abs(math.log(ratio)) if ratio and ratio > 0 else math.inf


def _cause(points: Sequence[CheckedFigure], facts: Mapping[str, float]) -> tuple[float | None, str]:
    """A common factor with its likely cause, or else what the deviating kernels have in common."""
    ratios = [ratio for point in points if (ratio := point.ratio) is not None]
    off = [point for point in points if not point.holds]
    if kernel := next((point.kernel for point in off if point.expected == 0), None):
        return None, f"it also counts something else: {kernel} does no such work"
    middle = median(ratios)
    if middle == 0:
        return 0.0, "it stays zero: the wrong counter, or one that does not count on this device"
    if max(ratios) - min(ratios) > _SAME * abs(middle) or len(off) < len(ratios):
        offenders = ", ".join(f"{p.kernel} {p.ratio:.3g}" for p in off[:3] if p.ratio is not None)
        return (
            None,
            f"not off by one factor ({offenders} of the expected value): a term is missing, or another event counted",
        )
    for factor, cause in _factors(facts):
        if abs(middle / factor - 1) <= _SAME:
            return factor, cause
    return middle, "not a common factor: the wrong counter, or an extra or missing term"


def _factors(facts: Mapping[str, float]) -> list[tuple[float, str]]:
    """Common factors by which figures are off, with their causes."""
    stated = files.load(Path(__file__).with_name("factors.toml"))["factor"]
    causes = [(facts.get(one.get("fact", ""), one["value"]), one["cause"]) for one in stated]
    return [pair for factor, cause in causes if factor > 1 for pair in ((factor, cause), (1 / factor, cause))]


_QUESTIONS = Path(__file__).with_name("questions.toml")


class Question(CatalogueModel):
    """One question with its possible readings; see questions.toml."""

    name: str
    question: str
    kernel: str
    measured: str
    within: float
    readings: dict[str, str]

    @property
    def reads(self) -> frozenset[str]:
        """The counters and quantities that its figure needs."""
        return references([self.measured])[self.measured]


@dataclass(frozen=True)
class QuestionAnswer:
    """The reading that holds on a device, or None if none does or if it cannot be determined."""

    question: Question
    reading: str | None
    figure: float | None
    why: str = ""
    """Why the question stays open."""


@cache
def questions(target: str) -> tuple[Question, ...]:
    """The questions for a target."""
    entries = files.load(_QUESTIONS)["question"]
    return tuple(
        files.validate_entry(Question, targets.as_on_target(entry, target), f"The question {entry['name']}")
        for entry in entries
        if targets.holds(entry.get("gpus"), target)
    )


def answer_questions(target: str, known: Mapping[str, Mapping[str, float]]) -> list[QuestionAnswer]:
    """Answer every question; ``known`` contains counters, quantities and facts by kernel."""
    return [_answer(question, known.get(question.kernel, {})) for question in questions(target)]


def _answer(question: Question, known: Mapping[str, float]) -> QuestionAnswer:
    if lacking := sorted(question.reads - known.keys()):
        return QuestionAnswer(question, None, None, f"not collected: {', '.join(lacking)}")
    readings = {f"reading {number}": value for number, value in enumerate(question.readings.values())}
    values = solve_expressions({"figure": question.measured, **readings}, known)
    figure = values["figure"]
    if figure is None:
        return QuestionAnswer(question, None, None, "its figure is 0/0")
    for name, reading in zip(question.readings, readings, strict=True):
        value = values[reading]
        if value is not None and abs(figure - value) <= question.within / 100 * max(abs(value), abs(figure), 0.05):
            return QuestionAnswer(question, name, figure)
    return QuestionAnswer(question, None, figure, "no reading matches")
