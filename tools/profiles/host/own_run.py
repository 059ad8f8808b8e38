"""The stacks that a sampler took beside a program that rooflens recorded, and what is said if there are none."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, command_advice
from .py_spy import PySpyRecording, host_recording, read_recording
from .recording import HostClock, HostRecording

if TYPE_CHECKING:
    import duckdb

SAMPLES, LOG, FACTS = "host_samples.json", "host_samples.log", "host_samples.facts"
"""Files of the sampler in the folder of a run, as tools/running/sampled_program.py names them."""
_WRAPPER = "sampled_program.py"
"""The file that the process between py-spy and the program runs, and the program itself until it is loaded."""
_FAILED_PCT = 5
"""With more failed samples than this, a warning says so."""
_NO_PYTHON = (
    "The memory of the program cannot be read, and none of its processes sampled itself: it has no Python code, or "
    "its Python ignores PYTHONPATH (options -I, -E and -S)."
)


@dataclass(frozen=True)
class SampledRun:
    """What the sampler left of one run of the program."""

    facts: Mapping[str, Any]
    recorded: PySpyRecording | None

    def recording(
        self, con: duckdb.DuckDBPyConnection, work: Path
    ) -> tuple[HostRecording | None, list[Note], list[Note]]:
        """Return what was sampled, None if nothing was, with warnings and notes."""
        warnings, notes = list[Note](), list[Note]()
        if why := str(self.facts.get("refused", "")):
            warnings.append(Note("host_stacks", _refusal_text(why)))
        run = self.recorded
        spans = [span for span in run.spans if not span.stack[0].file.endswith(_WRAPPER)] if run else []
        unreadable = self.facts.get("unreadable")
        if run is None or not spans:
            return None, warnings, [Note("host_stacks", _NO_PYTHON)] if unreadable else notes
        if unreadable:
            words = (
                "The stacks were sampled by a thread of the program itself, because its memory cannot be read "
                f"({unreadable}). Native code that keeps the interpreter's lock delays samples. "
                "In a container, allow --cap-add=SYS_PTRACE; on a machine, as root"
            )
            notes.append(Note("host_stacks", command_advice(words, "sysctl kernel.yama.ptrace_scope=1")))
        share = 100 * run.errors / max(1, run.samples)
        if share > _FAILED_PCT:
            warnings.append(Note("host_stacks", f"{share:.0f} % of the samples of the host's stacks failed."))
        recording = host_recording(con, work / "own_run", spans, self.facts["rate"])
        source = self.facts.get("sampler", recording.source)
        return replace(recording, source=source, clock=self._clock(run)), warnings, notes

    def _clock(self, run: PySpyRecording) -> HostClock:
        """The clock of the sampler, and those of the machine that the events may use."""
        if run.began is None:
            return HostClock()
        clocks = self.facts["clocks"]
        shifts = tuple(run.began + clock - clocks["realtime"] for clock in clocks.values())
        return HostClock(-run.began, run.clock_error, shifts)


def sampled_run(folder: Path) -> SampledRun | None:
    """Return what the sampler left in ``folder``; None if it was not started."""
    if not (folder / FACTS).is_file():
        return None
    facts = json.loads((folder / FACTS).read_text("utf-8"))
    if not (folder / SAMPLES).is_file():
        return SampledRun(facts, None)
    try:
        return SampledRun(facts, read_recording(folder / SAMPLES, folder / LOG, facts["rate"], facts.get("began")))
    except BadInput as problem:  # the profile itself is good
        return SampledRun({**facts, "refused": problem.text}, None)


def _refusal_text(why: str) -> str:
    """Say why the host's stacks are missing, and what to allow."""
    said = f"The host's stacks were not sampled: {why}"
    if why == os.strerror(errno.ENOENT):
        return command_advice(f"{said}, because py-spy is not installed. Install it", "pip install py-spy")
    return f"{said}."
