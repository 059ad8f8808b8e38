"""Find the files of a rocprofv3 run: the kind of each, the process that wrote it, and its pass."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.problems import Problem
from ...base.profile_files import HOTSPOTS_STEP, head, is_inside, natural_sort_key
from ..merging.ranks import ProcessPlace, place_of_name
from ..merging.wording import note
from ..parsing.sqlite_database import MAGIC, open_database
from .layouts import FILES, HEADERS

_CSV = re.compile(
    r"(?:(?P<stem>.*)_)?(?P<kind>counter_collection|kernel_trace|agent_info|kernel_stats|"
    r"(?:hip|hsa|marker|rccl|rocdecode|rocjpeg|ompt|kfd)\w*_(?:api|ops)?_?(?:trace|stats)|domain_stats|scratch_memory_trace|"
    r"memory_(?:copy|allocation)_(?:trace|stats)|counter_info|pc_sampling_\w+)\.csv(?:\.gz)?"
)
_RESULTS = re.compile(r"(?:(?P<stem>.*)_)?results\.(?P<kind>db|json)(?:(?<=json)\.gz)?")
_SAMPLES = {"pc_sampling_host_trap": "host_trap", "pc_sampling_stochastic": "stochastic"}
"""Prefixes of the kinds of files with program counter samples."""
_SAMPLES_MARK = b'"Sample_Timestamp","Exec_Mask"'
_TRACE_START = (
    re.compile(rb'\s*\{\s*"code"\s*:\s*(?:null|\[\s*\[)'), re.compile(rb'"?CodeObj"?,"?Vaddr"?,"?Instruction"?,')
)  # fmt: skip
"""Start of the code of a decoded thread trace, in JSON and in CSV."""
_STALLS_MARK = b'"Stall_Reason"'
_JSON_MARK = b'"rocprofiler-sdk-tool"'
_TRACE_MARK = b'"traceEvents"'
_STEP = re.compile(rf"timing|{HOTSPOTS_STEP}|(pass|pmc|pmc_perf|replay|step)_?\d+")
_MOST_FILES, _MOST_LEVELS = 20_000, 7
LAUNCH_KINDS = ("rocpd", "json", "counters", "trace")
"""Kinds of files that contain single launches."""
ACTIVITY_KINDS = ("calls", "hsa", "rccl", "copies", "allocations", "scratch", "ranges")
"""Kinds of files that contain what a process did in addition to its launches."""
TRACE_KIND = "thread_trace"
"""Kind of files with the code of a decoded thread trace."""
RAW_TRACE = (
    "a raw thread trace: rocprofv3 --att decodes it right after recording, into ui_output_*/code.json, if it finds "
    "AMD's decoder library librocprof-trace-decoder.so (package rocprof-trace-decoder; --att-library-path DIR), so "
    "record it again with the library and import that folder"
)
"""What an .att file is, and how to get one that can be read."""
SAMPLE_KINDS = ("host_trap", "stochastic")
"""Kinds of files that contain program counter samples."""
CSV_KINDS = ("counters", "trace", *ACTIVITY_KINDS, *SAMPLE_KINDS)


@dataclass
class Output:
    """The files that one process wrote in one run of the profiler."""

    folder: Path
    stem: str
    """Common prefix of its file names: the placeholders of ``-o``, filled in."""
    steps: tuple[str, ...]
    """Enclosing folders that number passes, outermost first: (``pass_1``,), (``timing``, ``pass_1``), ()."""
    above: tuple[str, ...]
    """Folders above those, below the requested folder."""
    files: dict[str, Path] = field(default_factory=dict)
    """Kind (rocpd, json, counters, trace, agents, stats, ranges, calls, other) -> file."""

    @property
    def label(self) -> str:
        """Name of the pass, or an empty text if no folder states it."""
        return "_".join(self.steps)


def holds_output(path: Path) -> bool:
    """Return whether ``path`` is a file of rocprofv3, or a folder with one at any depth."""
    if path.is_file():
        return kind_of(path) is not None
    return path.is_dir() and any(kind_of(f) is not None for f in _walk(path))


def trace_files(path: Path) -> list[Path]:
    """Return the files of decoded thread traces at ``path``."""
    files = list(_walk(path)) if path.is_dir() else [path]
    return [f for f in files if kind_of(f) == TRACE_KIND]


def raw_traces(path: Path) -> list[Path]:
    """Return the raw files of thread traces at ``path``, which nothing but AMD's decoder can read."""
    return [f for f in _walk(path) if f.suffix == ".att"] if path.is_dir() else []


def find_outputs(path: Path) -> tuple[list[Output], list[Note]]:
    """Return the outputs at ``path``, sorted by place; for a single file, that file and its agent description."""
    folder = path if path.is_dir() else path.parent
    files = [f for f in _walk(folder) if kind_of(f)] if path.is_dir() else _with_agents(path)
    by_place: dict[tuple[Path, str], Output] = {}
    warnings = []
    for file in files:
        kind = kind_of(file)
        if kind in (None, TRACE_KIND):
            continue
        if not is_inside(file, folder):
            warnings.append(note("left_out.link", file=file))
            continue
        stem = _stem(file)
        parts = file.parent.relative_to(folder).parts
        steps = tuple(p for p in parts if _STEP.fullmatch(p))
        above = parts[: parts.index(steps[0])] if steps else ()
        output = by_place.setdefault((file.parent, stem), Output(file.parent, stem, steps, above))
        output.files.setdefault(kind, file)
    outputs = sorted(by_place.values(), key=lambda o: (natural_sort_key(str(o.folder)), natural_sort_key(o.stem)))
    for step in {o.steps[0] for o in outputs if o.steps}:
        inside = [o for o in outputs if o.steps[:1] == (step,)]
        if len({o.steps for o in inside}) == 1:  # the only pass inside the folder of a step, as in timing/pass_1
            for output in inside:
                output.steps = (step,)
    return outputs, warnings


def kind_of(file: Path) -> str | None:
    """Return the kind of a file by its name, else by its content; None if rocprofv3 did not write it."""
    if match := _CSV.fullmatch(file.name):
        samples = next((kind for start, kind in _SAMPLES.items() if match["kind"].startswith(start)), "other")
        return FILES.get(match["kind"], samples)
    if match := _RESULTS.fullmatch(file.name):
        # rocprof v1 writes traces in Chrome's format under the same name.
        start = _start(file) if match["kind"] == "json" else b""
        return None if _TRACE_MARK in start and _JSON_MARK not in start else FILES[match["kind"]]
    suffix = Path(file.name.removesuffix(".gz")).suffix
    if suffix not in (".json", ".csv") and file.suffix not in (".db", ".sqlite", ".sqlite3", ".rocpd"):
        return None
    start = _start(file)
    if suffix == file.suffix and _TRACE_START[suffix == ".csv"].match(start):
        return TRACE_KIND
    if suffix == ".csv":
        header = start.partition(b"\n")[0]
        if start.startswith(_SAMPLES_MARK):
            return "stochastic" if _STALLS_MARK in header else "host_trap"
        columns = set(header.decode(errors="replace").replace('"', "").strip().split(","))
        return next((kind for kind, needed in HEADERS.items() if columns.issuperset(needed)), None)
    if suffix == ".json":
        return "json" if _JSON_MARK in start else None
    return "rocpd" if start.startswith(MAGIC) and _may_be_rocpd(file) else None


def _start(file: Path) -> bytes:
    """Return the beginning of a file; nothing if it cannot be read."""
    try:
        return head(file, 4096)
    except Problem:
        return b""


def place_of(output: Output, host: str | None, pid: int | None) -> ProcessPlace:
    """Return the place of the process that wrote an output: as its files state it, else by file and folder names."""
    name = output.folder / output.stem
    if host and output.stem.startswith(f"{host}_"):  # the name of a host may contain underscores
        place = place_of_name(output.folder / output.stem.removeprefix(f"{host}_"), pid)
        return ProcessPlace(place.rank, host, pid)
    return ProcessPlace(pid=pid, host=host).or_else(place_of_name(name, pid))


def _may_be_rocpd(file: Path) -> bool:
    """Return whether a database is rocpd; True if it cannot be opened now, because reading it reports the reason."""
    try:
        with open_database(file) as db:
            return bool(db.parts("rocpd_kernel_dispatch") or db.parts("kernels"))
    except Problem:
        return True


def _with_agents(path: Path) -> list[Path]:
    prefix = f"{stem}_" if (stem := _stem(path)) else ""
    beside = (path.with_name(f"{prefix}agent_info.csv{packed}") for packed in ("", ".gz"))
    return [path, *(file for file in beside if file.is_file() and file != path)]


def _stem(file: Path) -> str:
    for pattern in (_CSV, _RESULTS):
        if match := pattern.fullmatch(file.name):
            return match["stem"] or ""
    return file.name.removesuffix(".gz").rpartition(".")[0]


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below ``folder``, a bounded number of them; links to folders are not followed."""
    seen = 0
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(folders) if len(here.relative_to(folder).parts) < _MOST_LEVELS else []
        for name in sorted(names):
            seen += 1
            if seen > _MOST_FILES:
                return
            if (here / name).is_file():
                yield here / name
