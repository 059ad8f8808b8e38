"""The reasons and notes that accompany figures: a code for programs, and text for readers.

Code never depends on the text: a test rewords every message and expects the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pydantic

ReasonCode = Literal[
    "no_counter",
    "not_countable",
    "no_fact",
    "no_dispatch",
    "no_channel",
    "no_timing",
    "no_value",
    "not_counted",
    "no_operations",
    "no_bytes",
    "no_ceiling",
    "nothing_there",
    "unseen",
    "bypassed",
    "negative",
    "near_limit",
    "above_limit",
    "above_ceiling",
    "partly_counted",
    "doubtful",
    "doubted",
    "deduced",
    "other_gpu",
    "caveat",
]


@dataclass(frozen=True)
class Reason:
    """Why a figure has no value or is unreliable; a ``caveat`` is only additional information on a value.

    ``nothing_there``: the denominator of a ratio was counted and is zero, such as the hit rate of a kernel without
    loads. ``unseen``: the kernel did work that the figure's counters do not see. ``bypassed``: its data bypass the
    level. ``no_counter``: a counter was not collected; ``not_countable``: the GPU has no counter for it.
    ``doubted``: the figure is built on a counter or time that a check doubts. ``deduced``: it is known only as a bound,
    from figures of several units or of a part of the work.
    """

    code: ReasonCode
    text: str

    @pydantic.model_serializer
    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Note:
    """One sentence about figures, such as a warning of an import or the origin of ceilings. ``code`` is snake_case."""

    code: str
    text: str

    @pydantic.model_serializer
    def __str__(self) -> str:
        return self.text


def join_reasons(reasons: Sequence[Reason], most: int) -> Reason | None:
    """Join up to ``most`` reasons into one with the code of the first; None if there are none."""
    if not reasons:
        return None
    more = " ..." if len(reasons) > most else ""
    return Reason(reasons[0].code, ", ".join(reason.text for reason in reasons[:most]) + more)
