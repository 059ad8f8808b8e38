"""What an installed rocprofv3 supports, according to its own output or to its version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .....analysis.catalogue import files
from .....analysis.catalogue.counter_names import events_of, level_of, why_not_countable
from .....analysis.catalogue.targets import find_target, gpu
from .....analysis.catalogue.targets import targets as known_targets
from ...known_failures import version_numbers
from ...request import ProfileRequest, channels, per_channel
from ...wording import problem
from .pc_sampling import ListedSamplingMethod

_OPTION = re.compile(r"--[a-z][a-z-]+")
_FORMATS = re.compile(r"--output-format \{([a-z0-9,]+)\}")
_VERSION = re.compile(r"^\s*version:\s*(\d+(?:\.\d+)*)", re.MULTILINE)
_NEEDED = {"--input", "--output-file", "--output-directory", "--output-format", "--kernel-trace"}
_NEWEST = "1.3.2"
"""The version assumed if none is given: the one whose help text these facts were checked against."""
_FORMATS_OF_ALL = ("csv", "json", "pftrace", "otf2")
_KERNEL_REPLAY = ("--replay-mode", "kernel", "--kernel-replay-beta-enabled", "true")


@cache
def _facts() -> dict[str, Any]:
    return files.load(Path(__file__).with_suffix(".toml"))


@dataclass(frozen=True)
class Rocprofv3Features:
    """The features that determine the command line."""

    version: str
    formats: tuple[str, ...]
    """Values of --output-format."""
    definitions: Literal["list", "map"] | None
    """Schema of the files for --extra-counters; None if the option does not exist or its schema is not known."""
    signal_option: bool
    """Whether it supports --disable-signal-handlers."""
    kernel_replay: tuple[str, ...]
    """Options for kernel replay, which collects all passes in one run of the program; empty if not supported."""
    turns: bool
    """Whether groups of counters can take turns between the launches of one run (``pmc_groups``)."""
    attaching: bool = False
    """Whether it can attach to a running process (``--attach``), supported since 1.1 (ROCm 7.1)."""
    attached_output: bool = False
    """Whether it supports --attach-sync-output, which waits until the files of an attached process are written."""
    tracing: tuple[str, ...] = ("--runtime-trace",)
    """Options of a timeline in addition to kernels and ranges: HIP and RCCL calls, copies, allocations, and events of
    the driver, of graphs and of HIP events where the version has them."""
    pc_sampling: bool = False
    """Whether it supports --pc-sampling-method and related options, available since 0.6 (ROCm 6.4)."""
    sampled: tuple[ListedSamplingMethod, ...] = ()
    """PC sampling methods that it lists for this machine; empty if it was not asked."""
    attached_sampling: bool = False
    """Whether it can sample an attached process, supported since 1.3.0 (ROCm 7.13)."""
    into_containers: bool = False
    """Whether it can attach from the host to a process in a container, supported since 1.3.5 (ROCm 10.0)."""


def features(help_text: str, version_text: str) -> Rocprofv3Features:
    """Parse the output of ``--help`` and ``--version`` into features; the latter may be empty.

    Raises MissingTool for a rocprofv3 from before ROCm 6.2, which does not accept JSON input.
    """
    options = set(_OPTION.findall(help_text))
    if not options >= _NEEDED:
        raise problem("rocprofv3_lacks_options", needed=", ".join(sorted(_NEEDED - options)))
    version_match = _VERSION.search(version_text)
    likely = next((version for option, version in _facts()["introduced"].items() if option in options), "0.4")
    format_match = _FORMATS.search(help_text)
    formats = tuple(format_match[1].split(",")) if format_match else None
    return _features(version_match[1] if version_match else likely, options, formats)


def features_of(version: str | None) -> Rocprofv3Features:
    """Return the features of a version known only by number: rocprofiler-sdk 0.4 ... 1.4 or ROCm 6.2 ... 10.1."""
    text = (version or _NEWEST).strip().removeprefix("v")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)*", text):
        raise problem("bad_rocprofv3_version", version=version)
    if version_numbers(text) >= (5,):
        text = next((sdk for rocm, sdk in reversed(_facts()["rocm"].items()) if _is_since(rocm, text)), "0.3")
    if not _is_since("0.4", text):
        raise problem("old_rocprofv3", version=version)
    return _features(text, {option for option, since in _facts()["since"].items() if _is_since(since, text)}, None)


def _features(version: str, options: set[str], formats: tuple[str, ...] | None) -> Rocprofv3Features:
    """Return the features of a version with these options, and with the usual formats if they are not known."""
    facts = _facts()
    tracing = facts["timeline"]
    flags: dict[str, Any] = {name: options.issuperset(needed) for name, needed in facts["options"].items()}
    flags |= {name: _is_since(since, version) for name, since in facts["versions"].items()}
    runtime = "runtime" if options.issuperset(tracing["runtime"]) else "separate"
    return Rocprofv3Features(
        version,
        formats or (*_FORMATS_OF_ALL, *(("rocpd",) if _is_since("1.0", version) else ())),
        _schema(version) if "--extra-counters" in options else None,
        kernel_replay=_replay_options(options),
        tracing=tuple(option for option in (*tracing[runtime], *tracing["events"]) if option in options),
        **flags,
    )


def _is_since(first: str, version: str) -> bool:
    return version_numbers(version) >= version_numbers(first)


def _replay_options(options: set[str]) -> tuple[str, ...]:
    """Return the beta switch that enables kernel replay, and the mode if the version offers several."""
    if "--kernel-replay-beta-enabled" not in options:
        return ()
    return _KERNEL_REPLAY if "--replay-mode" in options else _KERNEL_REPLAY[2:]


def _schema(version: str) -> Literal["list", "map"] | None:
    """A map of names up to 0.6, a list with a schema version since 1.0; 0.7 was never released and had both."""
    return "list" if _is_since("1.0", version) else "map" if version_numbers(version)[:2] == (0, 6) else None


@dataclass(frozen=True)
class TranslatedPass:
    """The counters of one pass under rocprofv3's names, with the definitions that they need."""

    counters: tuple[str, ...]
    """Counters of the plan, without unsupported ones and without level counters that are only integrated."""
    names: tuple[str, ...]
    """The names to pass to rocprofv3."""
    expressions: dict[str, str]
    """Name -> the expression that defines it."""
    left_out: dict[str, str]
    """Skipped counter of the plan -> the reason."""


def translate_pass(request: ProfileRequest, counters: tuple[str, ...], features: Rocprofv3Features) -> TranslatedPass:
    """Translate one pass of a plan into rocprofv3's names.

    A level counter that is needed only for its integral is not requested: accumulate() selects it itself.
    """
    refusals = {c: reason for c in counters if (reason := _refusal(request, c, features))}
    integrated = {level: c for c in counters if (level := level_of(c))}
    remaining: list[str] = []
    names: list[str] = []
    expressions: dict[str, str] = {}
    for counter in counters:
        if counter in integrated or counter in refusals:
            continue
        remaining.append(counter)
        if level := level_of(counter):
            expressions[counter] = f"reduce(accumulate({level},HIGH_RES),sum)"
        elif event := per_channel(counter):
            known = channels(request)
            assert known is not None
            xcds, each = known
            selections = {
                f"{event}[{xcd * each + i}]": f"select({event},[DIMENSION_XCC=[{xcd}],DIMENSION_INSTANCE=[{i}]])"
                for xcd in range(xcds)
                for i in range(each)
            }
            expressions |= selections
            names += selections
            continue
        names.append(counter)
    return TranslatedPass(
        tuple(remaining), tuple(names), expressions, {c: r for c, r in refusals.items() if c not in integrated}
    )


def definitions_text(request: ProfileRequest, expressions: Mapping[str, str], features: Rocprofv3Features) -> str:
    """Return the YAML file for --extra-counters in the schema of this version."""
    targets = [request.target] if request.target else [t for t in known_targets() if gpu(t).counter_limits]
    if features.definitions == "map":
        return "".join(
            f"{name}:\n  architectures:\n    {'/'.join(targets)}:\n      expression: {text}\n  description: ''\n"
            for name, text in expressions.items()
        )
    # One line each: rocprofv3 passes the file on in one environment variable, which Linux limits to 128 KiB.
    return "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n" + "".join(
        f"  - {{name: '{name}', description: '', properties: [], definitions: "
        f"[{{architectures: [{', '.join(targets)}], expression: '{text}'}}]}}\n"
        for name, text in expressions.items()
    )


def _refusal(request: ProfileRequest, counter: str, features: Rocprofv3Features) -> str | None:
    """Return why this rocprofv3 cannot count ``counter`` on the target, or None."""
    for event in dict.fromkeys([level_of(counter) or counter, *events_of(counter)]):
        if level_of(event) is None and (reason := why_not_countable(request.target, event)):
            return reason
    if not (level_of(counter) or per_channel(counter)):
        return None
    if features.definitions is None:
        return f"rocprofv3 {features.version} lacks it and cannot define new counters"
    if level_of(counter):
        known = find_target(request.target)
        return known.without_integrals.get("rocprofv3") if known else None
    if channels(request) is None:
        return "the device's number of XCDs is not known; name the product (MI300X) as gpu"
    return None
