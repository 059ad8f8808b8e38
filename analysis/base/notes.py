"""What an answer says beside its figures: a code to decide on, and words to read.

Code never looks into the words: a test rewords every message and expects the same figures. Answers show the words.
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
    "other_gpu",
    "caveat",
]


@dataclass(frozen=True)
class Reason:
    """Why a figure has no value, or is not to be trusted; a ``caveat`` only says what to know beside a value.

    ``nothing_there`` is a ratio whose denominator was counted and is zero: a kernel without loads has no hit rate.
    ``unseen``: the kernel did work that the figure's counters do not see. ``bypassed``: its data pass elsewhere.
    ``no_counter``: a counter was not collected; ``not_countable``: the GPU has none.
    ``doubted`` is a figure built on a counter or time that a check doubts.
    """

    code: ReasonCode
    text: str

    @pydantic.model_serializer
    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Note:
    """One sentence beside the figures: a warning of an import, or where ceilings come from. ``code`` is snake_case."""

    code: str
    text: str

    @pydantic.model_serializer
    def __str__(self) -> str:
        return self.text


def join_reasons(reasons: Sequence[Reason], most: int) -> Reason | None:
    """Several reasons as one with the code of the first; ``most`` of them are told, None where there are none."""
    if not reasons:
        return None
    more = " ..." if len(reasons) > most else ""
    return Reason(reasons[0].code, ", ".join(reason.text for reason in reasons[:most]) + more)
