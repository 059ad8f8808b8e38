"""Types of parameters with the bounds of their values, and what parameters.toml states of each parameter."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

REFERENCE_CHARACTERS = 300
"""Maximum length of an id, a name, a target: whatever identifies one thing."""
KERNEL_CHARACTERS = 8_000
"""Maximum length of a kernel's name or pattern: the longest name that is stored, as an answer may show it."""
SENTENCE_CHARACTERS = 10_000
PATH_CHARACTERS = 4_096
DISPATCH_IDS, DISPATCH_CHARACTERS = 10_000, 100_000
"""Maximum number of dispatch ids in a list, and of characters in a text."""
LARGEST_ID = 2**63 - 1
METRIC_NAMES, VERSIONS, PATTERNS = 2_000, 100, 50
WORDS, WORD_CHARACTERS = 10_000, 131_072
"""Limits of a command; the length of a word is what Linux accepts for one argument."""
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
DeviceName = Reference | Annotated[int, Field(ge=0, le=1_000)]
Versions = Annotated[list[Reference], Field(max_length=VERSIONS)]
Patterns = Annotated[list[Pattern], Field(max_length=PATTERNS)]
Registers = Annotated[int, Field(ge=0, le=MOST_REGISTERS)]
Bytes = Annotated[int, Field(ge=0, le=MOST_BYTES)]
By = Literal["kernel", "launch"]
Dispatches = (
    Annotated[list[Annotated[int, Field(ge=0, le=LARGEST_ID)]], Field(max_length=DISPATCH_IDS)]
    | Annotated[str, Field(max_length=DISPATCH_CHARACTERS), AfterValidator(_ids)]
    | None
)
CeilingSource = Literal["empirical", "theoretical"]
CeilingValues = dict[Reference, Annotated[float, Field(ge=-LARGEST_RATE, le=LARGEST_RATE)]]
Detail = Literal["summary", "full"]
Replay = Literal["auto", "application", "kernel", "iteration"]


@cache
def parameter_facts(tool: str) -> dict[str, dict[str, Any]]:
    """Return what parameters.toml states of the parameters of a tool: by name, arguments of pydantic's Field."""
    tables = tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {**tables["all"], **tables.get(tool, {})}
