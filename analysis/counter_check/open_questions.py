"""Questions that documents leave open, decided by what a device counted of kernels with known work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..catalogue import files, targets
from ..catalogue.files import CatalogueModel
from ..catalogue.formula import references
from .solve_work import solve_expressions

_FILE = Path(__file__).with_name("questions.toml")


class Question(CatalogueModel):
    """One question with its readings; see questions.toml."""

    name: str
    question: str
    kernel: str
    measured: str
    within: float
    readings: dict[str, str]

    @property
    def reads(self) -> frozenset[str]:
        """Names of counters and quantities that its figure needs."""
        return references([self.measured])[self.measured]


@dataclass(frozen=True)
class QuestionAnswer:
    """Which reading holds on a device; None where none does, or where it cannot be told."""

    question: Question
    reading: str | None
    figure: float | None
    why: str = ""
    """Of a question that stays open."""


@cache
def questions(target: str) -> tuple[Question, ...]:
    """The questions for a target."""
    entries = files.load(_FILE)["question"]
    return tuple(
        files.validate_entry(Question, targets.as_on_target(entry, target), f"The question {entry['name']}")
        for entry in entries
        if targets.holds(entry.get("gpus"), target)
    )


def answer_questions(target: str, known: Mapping[str, Mapping[str, float]]) -> list[QuestionAnswer]:
    """An answer to every question; ``known`` holds counters, quantities and facts by kernel."""
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
    return QuestionAnswer(question, None, figure, "no reading fits")
