"""Drive rocprofv3: its features, its counter definitions, its command lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ....analysis.catalogue.events import absent, events_of, level_of
from ....analysis.catalogue.targets import described, gpu
from ....analysis.catalogue.targets import targets as known_targets
from ....analysis.notes import Note
from ....analysis.problems import BadArgument, MissingTool, Problem
from ...runner.job import Step
from ..failures import explained
from ..request import (
    SERIALISED,
    Replay,
    Request,
    channels,
    check_limits,
    checked_launches,
    checked_pattern,
    left_out_notes,
    per_channel,
)

_OPTION = re.compile(r"--[a-z][a-z-]+")
_FORMATS = re.compile(r"--output-format \{([a-z0-9,]+)\}")
_VERSION = re.compile(r"^\s*version:\s*(\d+(?:\.\d+)*)", re.MULTILINE)
_COUNTER = re.compile(r"^Counter_Name\s*:\s*(\S+)", re.MULTILINE)
_NEEDED = {"--input", "--output-file", "--output-directory", "--output-format", "--kernel-trace"}
_NEWEST = "1.3.2"
"""The version assumed where none is given: of the help text that these facts were checked against."""
_SDK_OF_ROCM = {(6, 2): "0.4", (6, 3): "0.5", (6, 4): "0.6", (7, 0): "1.0", (7, 1): "1.1", (7, 2): "1.1"}


@dataclass(frozen=True)
class Features:
    """The facts that decide how a command line is written."""

    version: str
    formats: tuple[str, ...]
    """Of --output-format."""
    definitions: Literal["list", "map"] | None
    """Schema of the files for --extra-counters; None where there is no such option or its schema is not known."""
    signal_option: bool
    """Knows --disable-signal-handlers."""
    kernel_replay: tuple[str, ...]
    """Options by which it replays single kernels, all passes in one run of the program; empty where it cannot."""
    counters: frozenset[str] = frozenset()
    """The counters that it lists for this machine's GPU; empty where it was not asked."""


def features(help_text: str, version_text: str, list_text: str = "") -> Features:
    """The features that the texts of ``--help``, ``--version`` and ``--list-avail`` state; the last two may be empty.

    Raises MissingTool for a rocprofv3 from before ROCm 6.2, which takes no JSON input.
    """
    options = set(_OPTION.findall(help_text))
    if not options >= _NEEDED:
        raise MissingTool(
            "This rocprofv3 is too old to be driven",
            f"its help does not name {', '.join(sorted(_NEEDED - options))}",
            "Install rocprofiler-sdk of ROCm 6.2 or later, or use rocprof with profiler='rocprof'",
        )
    stated = _VERSION.search(version_text)
    version = stated[1] if stated else _guess(options)
    listed = _FORMATS.search(help_text)
    return Features(
        version,
        tuple(listed[1].split(",")) if listed else features_of(version).formats,
        _schema(version) if "--extra-counters" in options else None,
        "--disable-signal-handlers" in options,
        _replay_options(options),
        frozenset(_COUNTER.findall(list_text)),
    )


def features_of(version: str | None) -> Features:
    """The features of a version known by number alone: of rocprofiler-sdk (0.4 ... 1.3) or of ROCm (6.2 ... 7.2)."""
    parts = re.fullmatch(r"v?(\d+)\.(\d+)(\.\d+)*", (version or _NEWEST).strip())
    if not parts:
        raise BadArgument(
            f"{version!r} is no version of rocprofv3", "", "Give rocprofiler-sdk's (1.0) or ROCm's (7.0), or none"
        )
    number = (int(parts[1]), int(parts[2]))
    if number[0] >= 5:
        if number < (6, 2):
            raise MissingTool(
                f"rocprofv3 of ROCm {version} cannot be driven", "it takes no JSON input", "Use profiler='rocprof'"
            )
        sdk = _SDK_OF_ROCM.get(number, _NEWEST)
        number = (int(sdk.split(".")[0]), int(sdk.split(".")[1]))
        text = sdk
    else:
        text = parts[0].removeprefix("v")
    if number < (0, 4):
        raise MissingTool(f"rocprofv3 {text} cannot be driven", "it takes no JSON input", "Use profiler='rocprof'")
    formats = ("csv", "json", "pftrace", "otf2") + (("rocpd",) if number >= (1, 0) else ())
    # Kernel replay is a beta of mid-2026 that no version number tells, and the option for signals is in 1.1 for sure.
    return Features(text, formats, _schema(text), number >= (1, 1), ())


def _replay_options(options: set[str]) -> tuple[str, ...]:
    """The beta switch turns kernel replay on; where there is a choice of modes, that must be made too."""
    if "--kernel-replay-beta-enabled" not in options:
        return ()
    mode = ("--replay-mode", "kernel") if "--replay-mode" in options else ()
    return (*mode, "--kernel-replay-beta-enabled", "true")


def _schema(version: str) -> Literal["list", "map"] | None:
    """A map of names up to 0.6, a list under a schema version from 1.0; 0.7 was never released and had both."""
    number = tuple(int(part) for part in version.split(".")[:2])
    if number >= (1, 0):
        return "list"
    return "map" if number == (0, 6) else None


def _guess(options: set[str]) -> str:
    """The version of a rocprofv3 that does not tell it, from the options that came with each."""
    if "--version" in options:
        return "1.0"
    if "--agent-index" in options:
        return "0.7"
    if "--collection-period" in options:
        return "0.6"
    return "0.5" if "--pmc" in options else "0.4"


@dataclass(frozen=True)
class Pass:
    """The counters of one pass as rocprofv3 is asked for them, and the definitions that it needs for them."""

    counters: tuple[str, ...]
    """As in the plan, without what this rocprofv3 cannot count, and without levels that it integrates only."""
    names: tuple[str, ...]
    """As rocprofv3 is asked for them."""
    expressions: dict[str, str]
    """Name -> the expression that defines it."""
    left_out: dict[str, str]
    """Counter of the plan -> why it is not among them."""


def translated(request: Request, counters: tuple[str, ...], features: Features) -> Pass:
    """One pass of a plan in rocprofv3's terms.

    A level counter that stands there for its integral alone is not asked for: accumulate() selects it itself.
    """
    left = {c: reason for c in counters if (reason := _refused(request, c, features))}
    integrated = {level: c for c in counters if (level := level_of(c))}
    kept: list[str] = []
    names: list[str] = []
    expressions: dict[str, str] = {}
    for counter in counters:
        if counter in integrated or counter in left:
            continue
        kept.append(counter)
        if level := level_of(counter):
            expressions[counter] = f"reduce(accumulate({level},HIGH_RES),sum)"
        elif event := per_channel(counter):
            selections = _of_channels(request, event)
            expressions |= selections
            names += selections
            continue
        names.append(counter)
    return Pass(tuple(kept), tuple(names), expressions, {c: r for c, r in left.items() if c not in integrated})


def definitions_text(request: Request, expressions: Mapping[str, str], features: Features) -> str:
    """The YAML file for --extra-counters in the schema of this version."""
    targets = [request.target] if request.target else [t for t in known_targets() if gpu(t).counter_limits]
    if features.definitions == "map":
        return "".join(
            f"{name}:\n  architectures:\n    {'/'.join(targets)}:\n      expression: {text}\n  description: ''\n"
            for name, text in expressions.items()
        )
    # One line each: rocprofv3 hands the file on in one environment variable, which Linux limits to 128 KiB.
    return "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n" + "".join(
        f"  - {{name: '{name}', description: '', properties: [], definitions: "
        f"[{{architectures: [{', '.join(targets)}], expression: '{text}'}}]}}\n"
        for name, text in expressions.items()
    )


def _refused(request: Request, counter: str, features: Features) -> str | None:
    """Why this rocprofv3 cannot count ``counter`` on the target, or None."""
    for event in dict.fromkeys([level_of(counter) or counter, *events_of(counter)]):
        if level_of(event) is None and (reason := _unknown(request.target, event, features)):
            return reason
    if not (level_of(counter) or per_channel(counter)):
        return None
    if features.definitions is None:
        return f"rocprofv3 {features.version} cannot be taught counters, and it has none for this"
    if level_of(counter):
        known = described(request.target)
        return known.without_integrals.get("rocprofv3") if known else None
    if channels(request) is None:
        return "how many XCDs the device has is not known; name the product (MI300X) as gpu"
    return None


def _unknown(target: str, event: str, features: Features) -> str | None:
    if features.counters:
        known = event in features.counters
        return None if known else f"rocprofv3 {features.version} of this machine lists no such counter"
    return absent(target, event)


def _of_channels(request: Request, event: str) -> dict[str, str]:
    """``EVENT[i]`` for every channel, counted through all XCDs, and the expression that selects it."""
    known = channels(request)
    assert known is not None
    xcds, each = known
    return {
        f"{event}[{xcd * each + i}]": f"select({event},[DIMENSION_XCC=[{xcd}],DIMENSION_INSTANCE=[{i}]])"
        for xcd in range(xcds)
        for i in range(each)
    }


NAME = "rocprofv3"
VENDOR = "amd"
REPLAY: Replay = "application"
LOG: str | None = None
_FILE_NAME = "%hostname%_%nid%_%pid%"
"""Known to every version; without %pid% the processes of a program would overwrite each other's files."""
_UNSET = ("ROCPROF_", "ROCPROFILER_PC_SAMPLING_")
"""rocprofv3 takes these as options and refuses what contradicts the command line."""


def steps(request: Request, features: Features, *, program: str, out: str) -> list[Step]:
    """The steps that collect ``request``: ``timing``, then ``pass_N`` as numbered in the plan.

    With replay="kernel" one step counts all passes; a counter planned twice is counted once there, as every kernel is
    replayed in place. Counters that this version cannot count are left out (see notes). Raises BadArgument for a
    request that no rocprofv3, or not this one, can fulfil.
    """
    check_limits(request)
    if request.replay == "kernel" and not features.kernel_replay:
        raise BadArgument(
            f"rocprofv3 {features.version} cannot replay single kernels",
            "its help does not list --kernel-replay-beta-enabled",
            "Leave replay out: the program is run once for each pass then",
        )
    command_line = _CommandLine(request, features, program, out, _filters(request))
    translations = {n: translated(request, counters, features) for n, counters in enumerate(request.passes, 1)}
    passes = {n: one for n, one in translations.items() if one.names}
    if request.replay == "kernel":
        counting = [command_line.replaying(list(passes.values()))] if passes else []
    else:
        counting = [command_line.counting(f"pass_{n}", one) for n, one in passes.items()]
    return [command_line.step("timing", ["--kernel-trace"]), *counting]


def notes(request: Request, features: Features) -> list[Note]:
    """What this version leaves out of the request, and what its files cannot tell."""
    return [SERIALISED, *left_out_notes(left_out(request, features))]


def left_out(request: Request, features: Features) -> dict[str, str]:
    """Counters of the request that this version cannot count -> why."""
    reasons: dict[str, str] = {}
    for counters in request.passes:
        reasons |= translated(request, counters, features).left_out
    return reasons


def explain(status: int, stderr: str) -> Problem | None:
    """A known failure in words with its fix, or None."""
    return explained(NAME, status, stderr)


@dataclass(frozen=True)
class _CommandLine:
    """What every step has in common.

    The job in the input file says what to measure and nothing else: rocprofv3 refuses an option stated in two places.
    """

    request: Request
    features: Features
    program: str
    out: str
    filters: Mapping[str, str]

    def counting(self, name: str, one: Pass) -> Step:
        """A step for one pass."""
        return self.step(name, [], {"pmc": list(one.names)}, one.expressions, one.counters)

    def replaying(self, passes: Sequence[Pass]) -> Step:
        """One step for all passes, in which every kernel is replayed."""
        groups: list[list[str]] = []
        taken: set[str] = set()
        for one in passes:
            if group := [n for n in one.names if n not in taken]:
                groups.append(group)
                taken |= set(group)
        expressions = {n: e for one in passes for n, e in one.expressions.items()}
        counters = tuple(dict.fromkeys(c for one in passes for c in one.counters))
        return self.step("pass_1", self.features.kernel_replay, {"pmc_groups": groups}, expressions, counters)

    def step(
        self,
        name: str,
        options: Sequence[str],
        measured: Mapping[str, object] | None = None,
        expressions: Mapping[str, str] | None = None,
        counters: tuple[str, ...] = (),
    ) -> Step:
        """One start of the program; ``measured`` is what its job asks for, besides the filters."""
        files: dict[str, str] = {}
        argv = [self.program]
        if measured:
            files[f"{name}.json"] = json.dumps({"jobs": [{**measured, **self.filters}]}) + "\n"
            argv += ["--input", f"{self.out}/{name}.json"]
        if expressions:
            files[f"{name}.yaml"] = definitions_text(self.request, expressions, self.features)
            argv += ["--extra-counters", f"{self.out}/{name}.yaml"]
        argv += ["--output-directory", f"{self.out}/{name}", "--output-file", _FILE_NAME]
        argv += ["--output-format", *_formats(self.features), *options]
        if self.features.signal_option:
            argv += ["--disable-signal-handlers", "true"]
        return Step(name, (*argv, "--", *self.request.command), counters, files, unset=_UNSET)


def _filters(request: Request) -> dict[str, str]:
    filters = {}
    if pattern := checked_pattern(request, NAME):
        filters["kernel_include_regex"] = pattern
    if launches := checked_launches(request):
        filters["kernel_iteration_range"] = f"[{launches[0]}-{launches[1]}]"
    return filters


def _formats(features: Features) -> list[str]:
    """rocpd holds dynamic LDS, CSV the agents and everything for versions without it; both in every step, so that the
    reader takes all of them from one format."""
    return [f for f in ("csv", "rocpd") if f in features.formats] or list(features.formats[:1])
