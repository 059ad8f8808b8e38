"""What is known about code of the host, from host_rules.toml: frameworks, parts of a program, kinds of code, waits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tomli
from pydantic import TypeAdapter

from .host_code import Frame


@dataclass(frozen=True)
class CodePart:
    """Work that is no part of a program's loop: its name, how it is recognised, and its description."""

    name: str
    file: re.Pattern[str]
    title: str


@dataclass(frozen=True)
class CodeKind:
    """What code does: how it is recognised, and what to try."""

    name: str
    advice: str
    text: re.Pattern[str] | None = None
    function: re.Pattern[str] | None = None
    causes: Sequence[str] = ()
    """The largest cause of idle time must be one of these; empty for any."""
    waits: bool = False
    """Whether it must wait for the device."""
    part: str | None = None


@dataclass(frozen=True)
class HostRules:
    """The content of host_rules.toml."""

    frameworks: frozenset[str]
    framework_files: re.Pattern[str]
    framework_functions: re.Pattern[str]
    wrapper_files: re.Pattern[str]
    model_call: re.Pattern[str]
    parts: Sequence[CodePart]
    kinds: Sequence[CodeKind]
    waited_share: float
    waits_function: re.Pattern[str]
    waits_text: re.Pattern[str]
    waits_processes: re.Pattern[str]


@cache
def host_rules() -> HostRules:
    """Return the rules; the file is part of the package, so an error in it is a bug."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return TypeAdapter(HostRules).validate_python(tomli.loads(text))


def is_framework(frame: Frame) -> bool:
    """Whether a frame is of a library whose inside nobody changes; native code without sources is of one, unless it is
    in a file of the program."""
    rules = host_rules()
    if frame.file is None:
        return not frame.own or bool(rules.framework_functions.search(frame.function))
    if rules.framework_files.search(frame.file):
        return True
    return not frame.own and frame.module in rules.frameworks
