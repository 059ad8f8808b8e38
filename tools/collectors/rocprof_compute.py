"""Reader of rocprof-compute and omniperf workload folders: pmc_perf.csv, level files, sysinfo, roofline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.problems import BadInput
from ...analysis.store import Manifest
from .ceilings import write_ceilings
from .csvfile import stage
from .files import is_inside
from .keys import Pass
from .longform import widen
from .merge import Merged, write_tables
from .passes import ACCUMULATE, as_replays, instances_of
from .session import WORK
from .staged import Staged
from .sysinfo import arch_of, facts_of, read_options, read_sysinfo, text_of
from .xcd import channels_per_xcd, merge_xcds

if TYPE_CHECKING:
    import duckdb

FORMAT = "rocprof-compute"
TITLE = "rocprof-compute or omniperf workload folder (pmc_perf.csv)"
_LEVEL_FILE = re.compile(r"SQC?_\w*LEVEL\w*|SQC_\w+INFLIGHT_LEVEL")
_REPLAY_FILE = re.compile(r"pmc_perf_(\d+)")
_OWN_FILE = re.compile(f"pmc_perf(_\\d+)?|sysinfo|roofline|{_LEVEL_FILE.pattern}")
_MAIN = ("pmc_perf.csv", "pmc_perf.csv.gz")
_UNTIMED = "timestamps"


def detect(path: Path) -> bool:
    """Whether ``path`` is such a folder, the parent of one, or a file of one."""
    return _folder(path) is not None


def read(con: duckdb.DuckDBPyConnection, path: Path, out: Path) -> tuple[Manifest, Merged]:
    """Read the workload folder at ``path`` into tables under ``out``.

    Raises BadInput naming the file at fault. Files that are links out of the folder are left out with a warning.
    """
    folder = _folder(path)
    if folder is None:
        raise BadInput(f"{path.name} is no rocprof-compute workload", "it holds no pmc_perf.csv")
    notes: list[str] = []
    info, options = read_sysinfo(folder, notes), read_options(folder)
    arch, facts = arch_of(info), facts_of(info, notes)
    passes = _passes(con, _files(folder, notes), out / WORK)
    numbers = [n for p in passes for _, n in p.instances.values()]
    merged = write_tables(con, passes, out, instances_per_xcd=channels_per_xcd(facts, arch, numbers))
    write_ceilings(con, folder, arch or "", text_of(info, "timestamp"), out, notes)
    merged.warnings[:0] = notes
    if filters := [k for k in ("kernel", "dispatch") if options.get(k)]:
        merged.notes.append(f"The profile is filtered by {' and '.join(filters)}: it is not the whole program.")
    name = text_of(info, "name")
    manifest = Manifest(
        name=name if name not in (None, "path") else options.get("name") or folder.parent.name,
        format=FORMAT,
        vendor="amd",
        arch=arch,
        device=text_of(info, "device"),
        command=text_of(info, "command"),
        tool="rocprof-compute" if options or (text_of(info, "version") or "1") >= "2" else "omniperf",
        tool_version=text_of(info, "tool_version"),
        host=text_of(info, "host"),
        facts=facts,
    )
    return manifest, merged


def _folder(path: Path) -> Path | None:
    """The folder that holds the replays: ``path`` itself, its parent, or its only such sub-folder."""
    if path.is_file():
        stem = path.name.split(".")[0]
        return path.parent if _OWN_FILE.fullmatch(stem) and _replays(path.parent) else None
    if not path.is_dir() or _replays(path):
        return path if path.is_dir() else None
    below = [p for p in sorted(path.iterdir()) if p.is_dir() and is_inside(p, path) and _replays(p)]
    if len(below) > 1:
        raise BadInput(
            f"{path.name} holds {len(below)} workloads", ", ".join(p.name for p in below[:8]), "Import them one by one"
        )
    return below[0] if below else None


def _replays(folder: Path) -> list[Path]:
    """The file of joined replays, else the single replays in the order of their numbers."""
    for name in _MAIN:
        if (folder / name).exists():
            return [folder / name]
    found = [(m, f) for f in folder.glob("pmc_perf_*.csv*") if (m := _REPLAY_FILE.fullmatch(_stem(f)))]
    return [f for _, f in sorted(found, key=lambda pair: int(pair[0][1]))]


def _files(folder: Path, notes: list[str]) -> list[Path]:
    """The replays first, then level files and the run without counters; links out of the folder are left out."""
    files: dict[str, Path] = {}
    for file in _replays(folder):
        if not is_inside(file, folder):
            raise BadInput(f"{file.name} is a link out of the workload folder", fix="Copy the file itself into it")
        files[_stem(file)] = file
    for file in sorted(folder.rglob("*.csv*"), key=lambda f: (len(f.parts), f)):
        stem = _stem(file)
        if not (_LEVEL_FILE.fullmatch(stem) or stem == _UNTIMED):
            continue
        if not is_inside(file, folder):
            notes.append(f"{file.name} is a link out of the workload folder and was left out.")
        elif stem in files:
            notes.append(f"{file.relative_to(folder)} was left out: there is already a pass {stem}.")
        else:
            files[stem] = file
    return list(files.values())


def _passes(con: duckdb.DuckDBPyConnection, files: list[Path], work: Path) -> list[Pass]:
    """The passes of all files, with the names their counters have in the store."""
    replays = [f for f in files if _REPLAY_FILE.fullmatch(_stem(f))]
    staged = [_stage(con, f, work, _stem(f)) for f in files]
    if replays:
        return as_replays(staged)
    main, *others = staged
    joined = Pass(main, {c: c for c in main.counters()}, instances_of(main))
    return [joined, *(Pass(s, {c: _name_in_level_file(c, s.name) for c in s.counters()}) for s in others)]


def _stage(con: duckdb.DuckDBPyConnection, file: Path, work: Path, name: str) -> Staged:
    staged = stage(con, file, work, name)
    return merge_xcds(con, widen(con, staged) if staged.header("counter_name") else staged)


def _name_in_level_file(counter: str, level: str) -> str:
    """SQ_ACCUM_PREV_HIRES is the time integral of the level that names its file: ``<LEVEL>_ACCUM``, as in rocpd."""
    return f"{level}_ACCUM" if counter == ACCUMULATE else f"{counter}@{level}"


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".csv")
