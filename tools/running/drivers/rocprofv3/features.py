"""What an installed rocprofv3 supports, according to its own output or to its version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .....analysis.base.problems import BadArgument, MissingTool
from .....analysis.catalogue.counter_names import events_of, level_of, why_not_countable
from .....analysis.catalogue.targets import find_target, gpu
from .....analysis.catalogue.targets import targets as known_targets
from ...known_failures import version_numbers
from ...request import ProfileRequest, channels, per_channel
from .pc_sampling import ListedSamplingMethod

_OPTION = re.compile(r"--[a-z][a-z-]+")
_FORMATS = re.compile(r"--output-format \{([a-z0-9,]+)\}")
_VERSION = re.compile(r"^\s*version:\s*(\d+(?:\.\d+)*)", re.MULTILINE)
_NEEDED = {"--input", "--output-file", "--output-directory", "--output-format", "--kernel-trace"}
_NEWEST = "1.3.2"
"""The version assumed if none is given: the one whose help text these facts were checked against."""
_RUNTIME, _RUNTIME_SINCE = ("--runtime-trace",), (0, 5)
_SAMPLING, _SAMPLING_SINCE = ("--pc-sampling-beta-enabled", "--pc-sampling-interval"), (0, 6)
_KERNEL_REPLAY = ("--replay-mode", "kernel", "--kernel-replay-beta-enabled", "true")
_SEPARATE_TRACES = ("--hip-runtime-trace", "--memory-copy-trace")
"""Replacement for --runtime-trace in versions without it (ROCm 6.2); allocations are not traced."""
_EVENTS: dict[str, tuple[int, ...]] = {
    "--kfd-trace": (1, 3, 0), "--hip-graph-trace": (1, 3, 5), "--hip-event-trace": (1, 4, 0),
}  # fmt: skip
"""Options for what happens on the device between launches -> the first version that certainly has them: page faults,
migrations and evictions of queues; launches of HIP graphs; GPU-side waits for HIP events."""
_ATTACHED_SAMPLING_SINCE, _CONTAINERS_SINCE, _KERNEL_REPLAY_SINCE = (1, 3, 0), (1, 3, 5), (1, 4, 1)
_TURNS_SINCE = (1, 0)
"""The first version (ROCm 7.0) whose input file supports pmc_groups."""
_SDK_OF_ROCM = {
    (6, 2): "0.4", (6, 3): "0.5", (6, 4): "0.6", (7, 0): "1.0", (7, 1): "1.1", (7, 2): "1.1", (7, 13): "1.3.0",
    (7, 14): "1.3.2", (10, 0): "1.3.5", (10, 1): "1.4.1",
}  # fmt: skip
"""ROCm release -> rocprofiler-sdk, from its change log and the release notes of ROCm 10.1."""

_VERSION_OF_OPTION = {"--version": "1.0", "--agent-index": "0.7", "--collection-period": "0.6", "--pmc": "0.5"}
"""Option -> the version that introduced it, the newest first, for a rocprofv3 that does not report its version."""


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
        raise MissingTool(
            "This rocprofv3 is too old",
            f"its help does not list {', '.join(sorted(_NEEDED - options))}",
            "Install rocprofiler-sdk of ROCm 6.2 or later, or use rocprof with profiler='rocprof'",
        )
    version_match = _VERSION.search(version_text)
    likely = next((version for option, version in _VERSION_OF_OPTION.items() if option in options), "0.4")
    version = version_match[1] if version_match else likely
    format_match = _FORMATS.search(help_text)
    return Rocprofv3Features(
        version,
        tuple(format_match[1].split(",")) if format_match else features_of(version).formats,
        _schema(version) if "--extra-counters" in options else None,
        "--disable-signal-handlers" in options,
        _replay_options(options),
        version_numbers(version) >= _TURNS_SINCE,
        "--attach" in options,
        "--attach-sync-output" in options,
        (
            *(_RUNTIME if set(_RUNTIME) <= options else tuple(o for o in _SEPARATE_TRACES if o in options)),
            *(option for option in _EVENTS if option in options),
        ),
        set(_SAMPLING) <= options,
        attached_sampling=version_numbers(version) >= _ATTACHED_SAMPLING_SINCE,
        into_containers=version_numbers(version) >= _CONTAINERS_SINCE,
    )


def features_of(version: str | None) -> Rocprofv3Features:
    """Return the features of a version known only by number: rocprofiler-sdk 0.4 ... 1.4 or ROCm 6.2 ... 10.1."""
    parts = re.fullmatch(r"v?(\d+)\.(\d+)(\.\d+)*", (version or _NEWEST).strip())
    if not parts:
        raise BadArgument(
            f"{version!r} is not a version of rocprofv3", "", "Give rocprofiler-sdk's (1.0) or ROCm's (7.0), or omit it"
        )
    number = (int(parts[1]), int(parts[2]))
    text = parts[0].removeprefix("v")
    if number[0] >= 5:
        if number < (6, 2):
            raise MissingTool(
                f"rocprofv3 of ROCm {version} is not supported", "it cannot read JSON input", "Use profiler='rocprof'"
            )
        text = _SDK_OF_ROCM[max(release for release in _SDK_OF_ROCM if release <= number)]
    sdk = version_numbers(text)
    if sdk < (0, 4):
        raise MissingTool(f"rocprofv3 {text} is not supported", "it cannot read JSON input", "Use profiler='rocprof'")
    formats = ("csv", "json", "pftrace", "otf2") + (("rocpd",) if sdk >= (1, 0) else ())
    # The signal option certainly exists in 1.1.
    recent = sdk >= (1, 1)
    return Rocprofv3Features(
        text, formats, _schema(text), recent, _KERNEL_REPLAY if sdk >= _KERNEL_REPLAY_SINCE else (),
        sdk >= _TURNS_SINCE, attaching=recent, attached_output=sdk >= (1, 3),
        tracing=(
            *(_RUNTIME if sdk >= _RUNTIME_SINCE else _SEPARATE_TRACES),
            *(option for option, since in _EVENTS.items() if sdk >= since),
        ),
        pc_sampling=sdk >= _SAMPLING_SINCE, attached_sampling=sdk >= _ATTACHED_SAMPLING_SINCE,
        into_containers=sdk >= _CONTAINERS_SINCE,
    )  # fmt: skip


def _replay_options(options: set[str]) -> tuple[str, ...]:
    """Return the beta switch that enables kernel replay, and the mode if the version offers several."""
    if "--kernel-replay-beta-enabled" not in options:
        return ()
    return _KERNEL_REPLAY if "--replay-mode" in options else _KERNEL_REPLAY[2:]


def _schema(version: str) -> Literal["list", "map"] | None:
    """A map of names up to 0.6, a list with a schema version since 1.0; 0.7 was never released and had both."""
    number = version_numbers(version)
    if number >= (1, 0):
        return "list"
    return "map" if number[:2] == (0, 6) else None


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
            selections = _channel_selections(request, event)
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


def _channel_selections(request: ProfileRequest, event: str) -> dict[str, str]:
    """Map ``EVENT[i]`` for every channel, numbered across all XCDs, to the expression that selects it."""
    known = channels(request)
    assert known is not None
    xcds, each = known
    return {
        f"{event}[{xcd * each + i}]": f"select({event},[DIMENSION_XCC=[{xcd}],DIMENSION_INSTANCE=[{i}]])"
        for xcd in range(xcds)
        for i in range(each)
    }
