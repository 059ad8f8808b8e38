"""Parameters that several tools share, each with its description and its bounds.

A client reads the descriptions in the schema of each tool; the bounds appear in the error when a value exceeds them.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

REFERENCE_CHARACTERS = 300
"""Maximum length of an id, a name, a target: whatever identifies one thing."""
KERNEL_CHARACTERS = 8_000
"""Maximum length of a kernel's name or pattern: the longest name that is stored, as an answer may show it."""
SENTENCE_CHARACTERS = 10_000
PATH_CHARACTERS = 4_096
SQL_CHARACTERS = 65_536
DISPATCH_IDS, DISPATCH_CHARACTERS = 10_000, 100_000
"""Maximum number of dispatch ids in a list, and of characters in a text."""
LARGEST_ID = 2**63 - 1
METRIC_NAMES, TAG_LABELS, CEILING_NAMES = 2_000, 100, 200
LEVEL_NAMES, VERSIONS, GROUPS, PATTERNS = 20, 100, 50, 50
WORDS, WORD_CHARACTERS, VARIABLES = 10_000, 131_072, 1_000
"""Limits of a command and its environment; the length of a word is what Linux accepts for one argument."""
LONGEST_ASKED_S, LONGEST_RUN_S = 3_600.0, 604_800.0
MOST_SKIPPED = 10**9
LARGEST_RATE = 1e15
"""In GB/s or GFLOP/s: a million times the rate of any existing machine."""
_FILE_NAME_BYTES = 255
_TOO_MANY_DIGITS = re.compile(r"\d{20}")
MOST_REGISTERS, MOST_BYTES, MOST_ITEMS = 1_000_000, 2**40, 2**31


def _path(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "it is empty; give the path of a file or folder")
    if any(len(part.encode()) > _FILE_NAME_BYTES for part in text.split("/")):
        raise PydanticCustomError("long_name", "one of its names is longer than any file system allows")
    return text


def _program_first(words: list[str]) -> list[str]:
    if words and words[0]:
        _path(words[0][: PATH_CHARACTERS + 1])
    return words


def _ids(text: str) -> str:
    if _TOO_MANY_DIGITS.search(text):
        raise PydanticCustomError("large_id", "a dispatch id has at most 19 digits")
    return text


def _at_least_one(metrics: list[str]) -> list[str]:
    if not metrics:
        raise PydanticCustomError(
            "no_metrics", 'it is empty; name some, omit it for the preset overview, or give ["*"] for all'
        )
    return metrics


Reference = Annotated[str, Field(max_length=REFERENCE_CHARACTERS)]
"""The name of one thing: a workload, a target, a metric."""
Pattern = Annotated[str, Field(max_length=KERNEL_CHARACTERS)]
Sentence = Annotated[str, Field(max_length=SENTENCE_CHARACTERS)]
FilePath = Annotated[str, Field(max_length=PATH_CHARACTERS), AfterValidator(_path)]
Word = Annotated[str, Field(max_length=WORD_CHARACTERS)]
CommandWords = Annotated[list[Word], Field(max_length=WORDS), AfterValidator(_program_first)]
MetricNames = Annotated[list[Reference], Field(max_length=METRIC_NAMES)]
SomeMetrics = Annotated[MetricNames, AfterValidator(_at_least_one)]
Launches = Annotated[list[Annotated[int, Field(ge=1, le=MOST_ITEMS)]], Field(max_length=2)]
LaunchCount = Annotated[int, Field(ge=1, le=MOST_ITEMS)]
MaxPasses = Annotated[int, Field(ge=1, le=100_000)]
DeviceName = Reference | Annotated[int, Field(ge=0, le=1_000)]
Versions = Annotated[list[Reference], Field(max_length=VERSIONS)]
Patterns = Annotated[list[Pattern], Field(max_length=PATTERNS)]
Registers = Annotated[int, Field(ge=0, le=MOST_REGISTERS)]
Bytes = Annotated[int, Field(ge=0, le=MOST_BYTES)]

CountedKernels = Annotated[Pattern | None, Field(description="RE2: count only these kernels")]
MostPasses = Annotated[MaxPasses | None, Field(description="most passes")]
WorkloadName = Annotated[Reference, Field(description='id, name or "latest"')]
KernelName = Annotated[Pattern | None, Field(description="name (RE2) or rank: #1,#3; #1.2")]
"""The short description. Only KernelNameInFull explains ranks, to keep the schemas of the other tools short."""
KernelNameInFull = Annotated[
    Pattern | None,
    Field(description="name or RE2 pattern, or ranks by time: #1,#3; #1.2: its 2nd launch configuration"),
]
By = Annotated[Literal["kernel", "launch"], Field(description="launch: configurations apart")]
Dispatches = Annotated[
    Annotated[list[Annotated[int, Field(ge=0, le=LARGEST_ID)]], Field(max_length=DISPATCH_IDS)]
    | Annotated[str, Field(max_length=DISPATCH_CHARACTERS), AfterValidator(_ids)]
    | None,
    Field(description="ids: 0,2,5-9; skip 1: not the first of each kernel"),
]
Datatype = Annotated[
    Reference | None,
    Field(
        description="default floating point; iop, a type (f16, i8), one of a pipe (matrix.bf16), or all (a point each)"
    ),
]
CeilingSource = Annotated[
    Literal["empirical", "theoretical"],
    Field(description="empirical: measured, else theoretical"),
]
CeilingValues = Annotated[
    dict[Reference, Annotated[float, Field(ge=-LARGEST_RATE, le=LARGEST_RATE)]],
    Field(
        max_length=CEILING_NAMES,
        description='your own, in GB/s or GFLOP/s: {"hbm.bw": 1390}',
    ),
]
Detail = Annotated[Literal["summary", "full"], Field(description="full: several times longer")]
Metrics = Annotated[
    SomeMetrics,
    Field(
        description="names (l2.hit_rate_pct), ids (17.3.7), panels (17), subsystems (l2), presets "
        "(overview, memory, compute, diagnosis, roofline, ...) or *"
    ),
]
Offset = Annotated[int, Field(ge=0, le=MOST_SKIPPED, description="rows to skip")]
WaitSeconds = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_ASKED_S,
        description="seconds, at most 50",
    ),
]
Replay = Annotated[
    Literal["auto", "application", "kernel", "iteration"],
    Field(description="iteration: passes take turns in one run (rocprofv3)"),
]
HypothesisText = Annotated[
    Sentence | None,
    Field(description="expected effect (logged)"),
]
ChangeText = Annotated[Sentence | None, Field(description="what was changed (logged)")]
Tags = Annotated[
    list[Reference],
    Field(max_length=TAG_LABELS, description='labels: ["v2", "tuned"]'),
]
