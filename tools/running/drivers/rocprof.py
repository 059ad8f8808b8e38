"""Drivers of rocprof (v1) and rocprofv2: a step for the times, then one step with an input file for each pass."""

from __future__ import annotations

import re

from ....analysis.base.notes import Note
from ....analysis.catalogue.counter_names import level_of
from ....analysis.catalogue.targets import find_target
from ...device.machine.profilers import PROGRAMS, ProfilerProgram
from ...profiles.merging.merge import ACCUMULATE
from ..job import Step
from ..request import (
    SERIALISED,
    ProfileRequest,
    Replay,
    channels,
    check_limits,
    left_out_notes,
    name_parts,
    per_channel,
    refuse_dash,
    refuse_unsupported,
)
from ..wording import note, problem


class _RocprofDriver:
    """What both versions share: input files, and no options for selecting launches or kernel replay."""

    NAME: str
    VENDOR = "amd"
    REPLAY: Replay = "application"
    RANGES = False
    LOG: str | None = None
    FILE_OPTION: str | None = None
    NAMES_DEVICE = False
    PROGRAM: ProfilerProgram
    _TIMING: str
    """Option of the step without counters."""
    _RESULTS: tuple[str, ...]
    """Options that put the results into the folder of a step, ``{place}``."""
    _LIMITS: tuple[Note, ...] = ()

    def features(self, help_text: str, version_text: str) -> None:
        """Return nothing: all versions use the same command lines."""

    def features_of(self, version: str | None) -> None:
        """Return nothing: all versions use the same command lines."""

    def steps(self, request: ProfileRequest, features: None, *, program: str, out: str) -> list[Step]:
        """Return ``timing``, then ``pass_N`` for each pass.

        Raises BadArgument for requests that these profilers have no option for, that do not fit into a pass, or that
        their shell scripts would alter.
        """
        refuse_unsupported(request, self.NAME, ("application",), ("timeline", "hotspots", "attach"), ("launches",))
        parts = name_parts(request, self.NAME)
        check_limits(request)
        refuse_dash(request.command, self.NAME)
        self._check_words(request, out)
        steps = {"timing": (), **{f"pass_{n}": counters for n, counters in enumerate(request.passes, 1) if counters}}
        return [
            Step(
                name,
                (
                    program,
                    *(("-i", f"{out}/{name}.txt") if counters else (self._TIMING,)),
                    *(word.format(place=f"{out}/{name}") for word in self._RESULTS),
                    *request.command,
                ),
                counters,
                {f"{name}.txt": _input_text(request, counters, parts)} if counters else {},
                self._variables(request),
                unset=("ROCP_", "ROCPROFILER_"),
            )
            for name, counters in steps.items()
        ]

    def notes(self, request: ProfileRequest, features: None) -> list[Note]:
        """Return notes on the limits of a profile from this profiler."""
        return [SERIALISED, *self._LIMITS, *left_out_notes(self.left_out(request, features))]

    def left_out(self, request: ProfileRequest, features: None) -> dict[str, str]:
        """Map counters of single L2 channels to why they are skipped, if the number of channels is not known."""
        if channels(request) is not None:
            return {}
        why = "the device's number of L2 channels is not known; name the product (MI300X) as gpu"
        return {c: why for counters in request.passes for c in counters if per_channel(c)}

    def _check_words(self, request: ProfileRequest, out: str) -> None:
        """Raise BadArgument for arguments or a folder that the profiler's script would alter."""
        raise NotImplementedError

    def _variables(self, request: ProfileRequest) -> dict[str, str]:
        return {}


class _RocprofV1(_RocprofDriver):
    """rocprof is a shell script that builds a command line and evaluates it; every step's results contain times."""

    NAME = "rocprof"
    FILE_OPTION: str | None = "-o"
    PROGRAM = PROGRAMS[NAME]
    # Besides statistics this writes the output of rocminfo, the only place where rocprof identifies the GPU.
    _TIMING = "--stats"
    _RESULTS = ("--timestamp", "on", "-o", "{place}/results.csv")
    _LIMITS = (note("one_file_a_run"),)
    _SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+( [\w@%+=:,./-]+)*")

    def _check_words(self, request: ProfileRequest, out: str) -> None:
        for text in (*request.command, out):
            if not self._SHELL_SAFE.fullmatch(text):
                raise problem("rocprof_changes_argument", text=text[:80])


class _RocprofV2(_RocprofDriver):
    """rocprofv2 is a shell script whose steps write results_PID.csv, with counters in a folder named pmc_1."""

    NAME = "rocprofv2"
    PROGRAM = PROGRAMS[NAME]
    _TIMING = "--kernel-trace"
    _RESULTS = ("-d", "{place}")
    _PATH = re.compile(r"[^\s*?\[\]]+")

    def _check_words(self, request: ProfileRequest, out: str) -> None:
        if not self._PATH.fullmatch(out):
            raise problem("rocprofv2_folder", out=out[:80])

    def _variables(self, request: ProfileRequest) -> dict[str, str]:
        # Without it the XCDs of an MI300 share one row, and the counters of single channels cannot be separated.
        target = find_target(request.target)
        return {"ROCPROFILER_INDIVIDUAL_XCC_MODE": "1"} if target and target.chiplets else {}


V1, V2 = _RocprofV1(), _RocprofV2()


def _input_text(request: ProfileRequest, counters: tuple[str, ...], kernels: list[str]) -> str:
    """Return the input file for one pass: a line of counters, and the name parts of the kernels to count.

    The accumulator integrates the counter selected directly before it, so it follows its level counter. Single L2
    channels are listed explicitly, numbered within one XCD.
    """
    names: list[str] = []
    for counter in counters:
        if level_of(counter):
            names.append(ACCUMULATE)
        elif event := per_channel(counter):
            known = channels(request)
            names += [f"{event}[{i}]" for i in range(known[1])] if known else []
        else:
            names.append(counter)
    filters = f"kernel: {' '.join(kernels)}\n" if kernels else ""
    return f"pmc: {' '.join(names)}\n{filters}"
