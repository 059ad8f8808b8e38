"""The manifest of a workload: its description, its origin, and its files with their integrity."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import pydantic

from ..base.notes import Note
from ..base.problems import LimitExceeded
from ..base.temporary_files import OPEN_SAFELY
from ..catalogue.targets import find_target
from .doubts import Doubt
from .wording import problem

LAYOUT = 1
PREFIX = "workload="
ID = re.compile(r"[0-9a-z]{1,64}")
MANIFEST = "manifest.json"
MANIFEST_BYTES = 16 << 20
"""The maximum size of a manifest; it usually has some kilobytes, or a tenth of a megabyte with thousands of
counters."""
TABLES = (
    "passes",
    "dispatches",
    "counters",
    "counter_instances",
    "ranks",
    "events",
    "ranges",
    "host_stacks",
    "host_samples",
    "causal",
    "samples",
    "instructions",
    "source_lines",
    "kernel_stats",
    "counter_samples",
    "waves",
    "ceilings",
    "clocks",
)
_FILES = frozenset(f"{table}.parquet" for table in TABLES)
_MOST_BYTES = 64 << 30
"""The maximum size of a workload that is copied from another store."""
_PARQUET = b"PAR1"
"""The first and the last bytes of a Parquet file."""
_Whole = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
_GBS_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.5625}
"""GB/s per direction after encoding (8b/10b, 128b/130b, 242 of 256 bytes): PCI Express base specifications 1.0 to
6.0."""
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""The generation by the signalling rate of a lane in GT/s."""


class Binary(pydantic.BaseModel):
    """The program file at the time of profiling."""

    path: str
    size: _Whole
    sha256: str | None = None
    """None if the file was too large to be hashed."""
    modified_ns: _Whole = 0


class PcieLink(pydantic.BaseModel):
    """The fastest link that card and slot support; idle drivers reduce the rate."""

    generation: Annotated[int, pydantic.Field(ge=1, le=6)]
    width: Annotated[int, pydantic.Field(ge=1, le=32)]
    """The number of lanes in use."""

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def gbs(self) -> float:
        """The maximum GB/s per direction; because of packet headers, copies reach about 80 to 90 % of it."""
        return round(_GBS_PER_LANE[self.generation] * self.width, 1)

    def __str__(self) -> str:
        return f"PCIe {self.generation}.0 x{self.width}"


def link(generation: int | None, width: int | None) -> PcieLink | None:
    """The link, or None if generation or width is unknown or impossible."""
    if generation is None or width is None:
        return None
    try:
        return PcieLink(generation=generation, width=width)
    except pydantic.ValidationError:
        return None


def generation_of(gigatransfers: float) -> int | None:
    """The generation with a signalling rate in GT/s, or None if there is none."""
    return _GENERATIONS.get(gigatransfers)


def _note_of_warning(warning: object) -> object:
    """Convert a warning of an old manifest, which contained only text."""
    return Note("recorded", warning) if isinstance(warning, str) else warning


class Manifest(pydantic.BaseModel):
    """The description of one workload: its origin, its device, and its files."""

    model_config = pydantic.ConfigDict(extra="ignore")

    layout: int = LAYOUT
    id: str = ""
    name: str
    created_ns: _Whole = 0
    vendor: str | None = None
    arch: str | None = None
    device: str | None = None
    device_uuid: str | None = None
    """The uuid of the device, if it is certain which device was used."""
    link: PcieLink | None = None
    """Its PCIe link, if rooflens profiled it."""
    command: str | None = None
    binary: Binary | None = None
    """The file that was actually profiled, if rooflens started it."""
    format: str
    tool: str | None = None
    tool_version: str | None = None
    host: str | None = None
    rank: _Whole | None = None
    ranks: _Whole = 0
    """The number of rows in the table ranks: the processes of a program with several; 0 for a single process."""
    commit: str | None = None
    """The commit of the profiled sources, if known (tools/running/program_revision.py)."""
    branch: str | None = None
    tags: Annotated[list[str], pydantic.FailFast()] = []
    kernel_filter: str | None = None
    """The regular expression that selected the counted kernels, if rooflens profiled them."""
    multiplexed: str | None = None
    """How the groups of counters took turns, if each launch of a kernel collected a different one."""
    sampled: bool = False
    """Whether only some launches of each launch configuration were counted, which represent the others."""
    replayed: Annotated[list[str], pydantic.FailFast()] = []
    """Additional passes that replayed single kernels; their counters belong to the times of that pass."""
    facts: dict[str, pydantic.FiniteFloat] = {}
    """Numeric facts of the profiled device as stated in the profile (names of analysis/catalogue/gpus)."""
    dispatches: _Whole = 0
    kernels: _Whole = 0
    events: _Whole = 0
    """The number of rows in the table events; a workload with events has a timeline."""
    samples: _Whole = 0
    """The number of program counter samples; a workload with samples has hot lines."""
    counters: Annotated[list[str], pydantic.FailFast()] = []
    """The columns of the table counters that are counters, with their pass suffix if they have one."""
    warnings: Annotated[
        list[Annotated[Note, pydantic.BeforeValidator(_note_of_warning), pydantic.PlainSerializer(vars)]],
        pydantic.FailFast(),
    ] = []
    doubts: list[Doubt] | None = None
    """The doubts that these warnings raise; None in older manifests, which did not store them."""
    files: dict[str, _Whole] = {}
    """The size of every Parquet file in bytes, by file name, so that a truncated file is noticed without opening it."""
    sha256: dict[str, str] = {}
    """The checksum of every file, if the workload is or was in a shared store."""

    @property
    def kernel_count(self) -> int | None:
        """The number of kernels; None if there are only samples, which do not name their kernels."""
        return None if self._holds_samples_only and not self.kernels else self.kernels

    @property
    def dispatch_count(self) -> int | None:
        """The number of launches; None if there are only samples, which do not count launches."""
        return None if self._holds_samples_only else self.dispatches

    @property
    def _holds_samples_only(self) -> bool:
        return bool(self.samples) and not (self.dispatches or self.events)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a workload whose files all have the right size. Raises StoreProblem for any other folder.

    Symbolic links are not followed, neither to files nor to the folder: a workload must be inside its store.
    """
    if folder.is_symlink():
        raise problem("symbolic_link")
    try:
        with os.scandir(folder) as entries:
            files = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        if MANIFEST not in files:
            raise problem("no_manifest")
        state = files[MANIFEST]
        manifest = _read_cached(f"{folder}/{MANIFEST}", (state.st_mtime_ns, state.st_ino, state.st_size))
    except pydantic.ValidationError as error:
        raise problem("file_unreadable", name=MANIFEST, why=_first_error(error)) from error
    except OSError as error:
        raise problem("file_unreadable", name=MANIFEST, why=error.strerror or str(error)) from error
    if manifest.layout > LAYOUT:
        raise problem("newer_layout", manifest=manifest)
    if not ID.fullmatch(manifest.id) or folder.name != f"{PREFIX}{manifest.id}":
        raise problem("other_manifest")
    check_table_names(manifest)
    for name, size in manifest.files.items():
        if name not in files:
            raise problem("table_missing", name=name)
        if not stat.S_ISREG(files[name].st_mode):
            raise problem("not_a_file", name=name)
        if (actual := files[name].st_size) != size:
            raise problem("table_truncated", name=name, actual=actual, size=size)
    return manifest


def check_table_names(manifest: Manifest) -> None:
    """Raise StoreProblem if a manifest lists a file that is not a table of a workload."""
    if not _FILES.issuperset(manifest.files):
        raise problem("unknown_tables", manifest=manifest)


def check_room(manifest: Manifest, folder: Path) -> None:
    """Raise LimitExceeded if the files that a manifest lists are too large, or do not fit on the disk of ``folder``."""
    size = sum(manifest.files.values())
    what = f"Workload {manifest.id} has {size / 1e9:.1f} GB"
    if size > _MOST_BYTES:
        raise LimitExceeded(what, f"at most {_MOST_BYTES / 1e9:.1f} GB are copied", "Import its profile instead")
    if (free := shutil.disk_usage(folder).free) < size:
        room = f"{folder} has room for {free / 1e9:.1f} GB"
        fix = "Free space, or select another folder (--store; XDG_CACHE_HOME for copies of a shared store)"
        raise LimitExceeded(what, room, fix)


def refuse_unusual_table(path: Path) -> None:
    """Raise StoreProblem unless a file starts and ends like Parquet and has no holes; reads only a few bytes.

    A sparse file occupies almost no space where it is, but would fill the disk to which it is copied.
    """
    try:
        handle = os.open(path, OPEN_SAFELY)
        try:
            size = os.fstat(handle).st_size
            marks = os.pread(handle, len(_PARQUET), 0), os.pread(handle, len(_PARQUET), max(0, size - len(_PARQUET)))
            usual = marks == (_PARQUET, _PARQUET) and os.lseek(handle, 0, os.SEEK_HOLE) >= size
        finally:
            os.close(handle)
    except OSError as error:
        raise problem("file_unreadable", name=path.name, why=error.strerror or str(error)) from error
    if not usual:
        raise problem("incomplete_table", path=path, name=path.parent.name.removeprefix(PREFIX))


def read_small(path: str | Path, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes. Raises OSError for a link, pipe, folder or larger
    file."""
    handle = os.open(path, OPEN_SAFELY)
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if state.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes")
        return os.read(handle, state.st_size + 1)
    finally:
        os.close(handle)


@lru_cache(maxsize=10_000)
def _read_cached(path: str, _state: tuple[int, ...]) -> Manifest:
    """A manifest, cached until its file changes, because every call lists the store, which may have a thousand
    workloads."""
    return Manifest.model_validate_json(read_small(path, MANIFEST_BYTES))


def _first_error(error: pydantic.ValidationError) -> str:
    """The first error in a manifest, without its content, which may be arbitrary."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:40] for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def manifest_doubts(manifest: Manifest) -> list[Doubt]:
    """The doubts of a manifest; for older manifests they are derived from the codes of its warnings."""
    if manifest.doubts is not None:
        return manifest.doubts
    codes = dict.fromkeys(w.code for w in manifest.warnings)
    return [doubt for code in codes for doubt in _doubts_of_code(code, manifest)]


_TO_SEE_FIGURES = "Import the profile again to see which figures are affected"
_OLD_CHECKS: dict[str, tuple[str, str]] = {
    "all_zero": (".*", "a pass contains only zeros"),
    "negative": (".*", "some counters are below zero"),
    "overflow": (".*", "some counters exceed 2^64"),
    "no_instructions": (".*", "some launches counted no instructions"),
    "waves_vs_grid": (r"SQ_WAVES|smsp?__warps_launched\.sum", "the counted waves do not match the launch"),
    "clock": (
        r"GRBM_GUI_ACTIVE|(sm|smsp|gpc)__cycles_elapsed\..+|cycles|cpu-cycles",
        "more cycles were counted than the time allows",
    ),
    "accumulate_zero": (r".+_ACCUM", "the time integral of a level is zero"),
    "above_100": (r".+_hit_rate\.pct|.+\.(avg|sum)\.pct_of_peak_sustained_elapsed", "some shares exceed the whole"),
}
"""Code of a check -> the counters that it can put in doubt, and its finding."""


def _doubts_of_code(code: str, manifest: Manifest) -> list[Doubt]:
    target = find_target(manifest.arch)
    if code in _OLD_CHECKS:
        pattern, text = _OLD_CHECKS[code]
        counters = tuple(c for c in manifest.counters if re.fullmatch(pattern, c.partition("@")[0]))
        return [Doubt(code, f"{text}. {_TO_SEE_FIGURES}", counters)] if counters else []
    if code == "replay_spread":
        return [Doubt(code, "durations differ between replays", times=manifest.vendor == "nvidia", across=True)]
    if code == "run_spread":
        return [Doubt(code, "the times of repeated runs differ", times=True)]
    if code == "dead_counter" and target:
        return [Doubt(code, f"{d.counter} may not have counted", (d.counter,)) for d in target.dead]
    known = [d for d in target.defect if d.code == code] if target else []
    return [Doubt(d.code, d.text, tuple(d.counters), d.times) for d in known]
