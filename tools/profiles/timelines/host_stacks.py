"""The tables host_stacks and host_samples: which code each thread of the host ran, on the clock of the timeline.

The stacks come from a sampler beside the profiled program (py_spy.py), or from a reader whose profile has them.
"""

from __future__ import annotations

import errno
import json
import linecache
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.notes import Note
from ....analysis.base.problems import BadInput, command_advice
from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base.profile_files import WORK
from ...base.untrusted_text import plain_text
from ..merging.contract import one_row, parquet
from ..parsing.spool import write_rows
from .py_spy import Frame, PySpyRecording, StackSpan, read_recording

if TYPE_CHECKING:
    import duckdb

SAMPLES, LOG, FACTS = "host_samples.json", "host_samples.log", "host_samples.facts"
"""Files of the sampler in the folder of a run, as tools/running/sampled_program.py names them."""
_WRAPPER = "sampled_program.py"
"""The file that the process between py-spy and the program runs, and the program itself until it is loaded."""
_TEXT, _LINE = 1000, 200
_PACKAGE = "/(?:site|dist)-packages/([^/]+)"
_STANDARD = r"/lib/python3\.\d+/|^<frozen "
_GENERATED = r"/torchinductor_|/\.triton/|^<"
_SYSTEM = r"^/(usr|opt|lib|lib64)/"
_FOREIGN = f"{_PACKAGE}|{_STANDARD}|{_GENERATED}|{_SYSTEM}"
"""Patterns (RE2) of files that are not the program's own code."""
_SOURCE = r"^/.*\.(py|c|cc|cpp|cxx|cu|cuh|h|hpp|hip)$"
"""Files whose lines are stored: the program has just been run from them."""
_MOST_LINES = 50_000
_SOURCE_LINE = {"file": "VARCHAR", "line": "INTEGER"}
_FAILED_PCT = 5
"""With more failed samples than this, a warning says so."""
_NO_CLOCK = (
    "The host's stacks were sampled, but their clock cannot be matched with that of the timeline: they are left out."
)

_NO_PYTHON = (
    "The memory of the program cannot be read, and none of its processes sampled itself: it has no Python code, or "
    "its Python ignores PYTHONPATH (options -I, -E and -S)."
)


@dataclass(frozen=True)
class SampledRun:
    """What the sampler left of one run of the program."""

    facts: Mapping[str, Any]
    recording: PySpyRecording | None

    @property
    def refused(self) -> str:
        """Why nothing was sampled; empty if something was, or if the program has no Python."""
        return str(self.facts.get("refused", ""))


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


def write_host_stacks(
    con: duckdb.DuckDBPyConnection, run: SampledRun | None, calls: str, out: Path, unix_shift: int | None
) -> tuple[list[Note], list[Note]]:
    """Write host_stacks and, if samples were taken, host_samples below ``out``; return warnings and notes.

    ``calls`` is SQL for the frames of the stacks at host calls (``events.stack``), empty if there are none.
    ``unix_shift`` is the clock of the profile minus Unix time in ns. If the reader does not state it, the clock is the
    one of the machine on which the samples and the events of the timeline overlap.
    """
    warnings, notes, frames = list[Note](), list[Note](), [calls] if calls else []
    if run and run.refused:
        warnings.append(Note("host_stacks", _refusal_text(run.refused)))
    recording = run.recording if run else None
    spans = [s for s in recording.spans if not s.stack[0][1].endswith(_WRAPPER)] if recording else []
    if run and run.facts.get("unreadable") and not spans:
        notes.append(Note("host_stacks", _NO_PYTHON))
    if run and recording and spans:
        shift = unix_shift if unix_shift is not None else _clock_shift(con, run.facts, recording, out)
        if recording.began is None or shift is None:
            warnings.append(Note("host_stacks", _NO_CLOCK))
        else:
            (last,) = one_row(con, f"SELECT coalesce(max(stack), 0) FROM ({calls})") if calls else (0,)
            # A stack changed between the last sample with the old one and the first with the new one.
            late = 1_000_000_000 // run.facts["rate"] // 2
            sampler = run.facts.get("sampler", "py-spy")
            frames.append(_write_samples(con, spans, recording.began + shift - late, out, last + 1, sampler))
            notes.append(_sampled_note(run, recording, spans))
            share = 100 * recording.errors / max(1, recording.samples)
            if share > _FAILED_PCT:
                failed = f"{share:.0f} % of the samples of the host's stacks failed."
                warnings.append(Note("host_stacks", failed))
    if frames:
        _write_stacks(con, " UNION ALL ".join(frames), out)
    return warnings, notes


def _sampled_note(run: SampledRun, recording: PySpyRecording, spans: Sequence[StackSpan]) -> Note:
    """Return a note on what was sampled, and how well its clock is known."""
    threads = count_text(len({(s.pid, s.thread) for s in spans}), "Python thread")
    processes = count_text(len({s.pid for s in spans}), "process")
    text = f"The stacks of {threads} in {processes} were sampled {run.facts['rate']} times a second (host_samples)"
    if why := run.facts.get("unreadable"):
        words = (
            f"{text} by a thread of the program itself, because its memory cannot be read ({why}). Native code that "
            "keeps the interpreter's lock delays samples. "
            "In a container, allow --cap-add=SYS_PTRACE; on a machine, as root"
        )
        return Note("host_stacks", command_advice(words, "sysctl kernel.yama.ptrace_scope=1"))
    return Note("host_stacks", f"{text}; their clock is known to {recording.clock_error / 1e6:.1f} ms.")


def _write_samples(
    con: duckdb.DuckDBPyConnection, spans: Sequence[StackSpan], zero: int, out: Path, first: int, sampler: str
) -> str:
    """Write host_samples, with stacks numbered from ``first``; return SQL for the frames of these stacks."""
    numbers: dict[tuple[Frame, ...], int] = {}
    for span in spans:
        numbers.setdefault(span.stack, first + len(numbers))
    rows = [(zero + s.start, zero + s.end, s.pid, s.thread, numbers[s.stack]) for s in spans]
    columns = dict.fromkeys(("start_ns", "end_ns", "pid", "thread", "stack"), "BIGINT")
    spooled = write_rows(con, out / WORK / "host_samples", columns, rows)
    select = f"SELECT *, '{plain_text(sampler, _LINE)}' AS source FROM {spooled} ORDER BY pid, thread, start_ns"
    write_table(con, select, out / "host_samples.parquet")
    frames = [
        (number, depth, plain_text(function, _TEXT), plain_text(file, _TEXT), line)
        for stack, number in numbers.items()
        for depth, (function, file, line) in enumerate(stack)
    ]
    columns = {"stack": "BIGINT", "depth": "INTEGER", "function": "VARCHAR", **_SOURCE_LINE}
    return f"SELECT *, NULL::VARCHAR AS module FROM {write_rows(con, out / WORK / 'host_frames', columns, frames)}"


def _write_stacks(con: duckdb.DuckDBPyConnection, frames: str, out: Path) -> None:
    """Write host_stacks from ``frames``, SQL for stack, depth, function, file, line and module (of native code)."""
    places = con.execute(
        f"SELECT DISTINCT file, line FROM ({frames}) WHERE line > 0 AND regexp_matches(file, '{_SOURCE}') "
        f"LIMIT {_MOST_LINES}"
    ).fetchall()
    lines = ((file, line, linecache.getline(file, line).strip()) for file, line in places)
    texts = [(file, line, plain_text(text, _LINE)) for file, line, text in lines if text]
    linecache.clearcache()
    known = write_rows(con, out / WORK / "host_lines", _SOURCE_LINE | {"text": "VARCHAR"}, texts)
    where = "coalesce(f.module, f.file, '')"
    package = f"nullif(regexp_extract({where}, '{_PACKAGE}', 1), '')"
    library = (
        f"CASE WHEN {package} IS NOT NULL THEN regexp_replace({package}, '[.]py$', '') "
        f"WHEN regexp_matches({where}, '{_STANDARD}') THEN 'python' "
        f"WHEN f.module IS NOT NULL THEN regexp_extract(f.module, '[^/]*$') END"
    )
    select = (
        f"SELECT f.stack, f.depth, f.function, nullif(f.file, '') AS file, nullif(f.line, 0) AS line, "
        f"{library} AS module, NOT regexp_matches({where}, '{_FOREIGN}') AS own, t.text "
        f"FROM ({frames}) f LEFT JOIN {known} t ON t.file = f.file AND t.line = f.line ORDER BY stack, depth"
    )
    write_table(con, select, out / "host_stacks.parquet")


def _clock_shift(
    con: duckdb.DuckDBPyConnection, facts: Mapping[str, Any], recording: PySpyRecording, out: Path
) -> int | None:
    """Return the clock of the events minus Unix time: that of the clock on which most of the events were sampled."""
    events = out / "events.parquet"
    if not events.is_file() or recording.began is None:
        return None
    found = one_row(con, f"SELECT min(start_ns), max(end_ns) FROM {parquet([events])}")
    if found[0] is None:
        return None
    first, last = (recording.began + at for at in (recording.spans[0].start, max(s.end for s in recording.spans)))
    clocks = facts["clocks"]
    shifts = [clock - clocks["realtime"] for clock in clocks.values()]
    return next((s for s in shifts if min(last + s, found[1]) - max(first + s, found[0]) > 0), None)


def _refusal_text(why: str) -> str:
    """Say why the host's stacks are missing, and what to allow."""
    said = f"The host's stacks were not sampled: {why}"
    if why == os.strerror(errno.ENOENT):
        return command_advice(f"{said}, because py-spy is not installed. Install it", "pip install py-spy")
    return f"{said}."
