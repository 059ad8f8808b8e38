"""The program counter samples of a run, with the code around them."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ....analysis.base.database import sql_literal
from ....analysis.base.notes import Note
from ...base import progress
from ...base.profile_files import is_inside
from ...code_objects.isa import class_sql
from ...code_objects.resolve import CodeQuery, DecodedInstruction, resolve_code
from ..merging.contract import Connection, parquet, row_of, write_relation
from ..merging.matching import pair_repeated_launches
from ..parsing.spool import Spool
from ..samples.sample_tables import INSTRUCTION, SAMPLE, HotspotQueries
from .activity import launches
from .layouts import HOTSPOTS, layout_sql
from .recording import OBJECT, SAMPLE_COLUMNS, ProcessRecording

_PROFILER = "rocprofv3"
_MOST_OBJECTS, _MOST_FILES, _MOST_PLACES = 12, 40, 50_000
"""Maximum number of code objects that are decoded, those with most samples first; of files in the profile's folder that
are tried as code; and of addresses that are decoded."""
_MOST_REASONS = 4
"""Maximum number of files for which the reason of a failure is reported."""
_PATIENCE_S = 180.0
"""Seconds after which no further file is tried."""
_SUFFIXES = (".out", ".hsaco", ".co", ".o", ".so", ".elf", ".ccob")
_NO_KERNEL = (
    "The samples do not state their kernels, because launches were not traced with them: profile again with "
    "--kernel-trace, or in JSON."
)
_NO_CODE = (
    "have an address but no instruction, because a rocprofv3 database contains none. Import with code= naming the "
    "program or its code object, or profile in JSON or CSV."
)


@dataclass(frozen=True)
class SampledProfile:
    """Where samples are: the processes of the main pass, other processes, and where to search for code."""

    folder: Path
    main: Sequence[ProcessRecording]
    others: Sequence[tuple[ProcessRecording, int | None]]
    """Each with the number of the process of the main pass that it repeats."""
    gpu: str | None
    code: Sequence[Path] = ()
    """Files with the code that the user specified."""

    @property
    def has_samples(self) -> bool:
        """Whether any of the processes was sampled."""
        return any(r.sampled for r in (*self.main, *(r for r, _ in self.others)))


@dataclass(frozen=True)
class _SampledCodeObject:
    """A code object with samples: its number in the whole workload, and where it was loaded from."""

    number: int
    process: int
    own: int
    """Its number in its process."""
    uri: str


def sample_queries(con: Connection, work: Path, profile: SampledProfile, stored: str) -> HotspotQueries:
    """Return samples and instructions; ``stored`` is a FROM item with the launches as stored, empty without any."""
    all_processes = [*((r, n, False) for n, r in enumerate(profile.main)), *((r, n, True) for r, n in profile.others)]
    sampled_processes = [(r, n, repeats) for r, n, repeats in all_processes if r.sampled]
    recordings = [r for r, *_ in sampled_processes]
    parts = [
        _process_samples(
            number,
            item,
            _repeated_launches(profile.main, item, n)
            if repeats
            else f"SELECT row, dispatch_id, kernel FROM ({launches(profile.main)}) WHERE process = {n}",
            bool(profile.main),
        )
        for number, (item, n, repeats) in enumerate(sampled_processes)
    ]
    staged = write_relation(con, " UNION ALL ".join(parts), work / "pc_samples.parquet")
    objects = _objects(con, recordings, staged)
    spool = Spool(con, work / "pc_code", HOTSPOTS["decoded"])
    missing = _decode_objects(spool, profile, recordings, objects, staged)
    decoded = parquet(spool.close()) if spool.rows else ""
    places = ", ".join(f"({o.process}, {o.own}, {o.number}, {sql_literal(_object_name(o))})" for o in objects)
    object_names = f"(SELECT * FROM (VALUES {places or '(-1, -1, -1, NULL)'}) v(process, code_object, object, name))"
    rows = f"(SELECT s.*, object, name FROM {staged} s LEFT JOIN {object_names} USING (process, code_object))"
    if decoded:
        rows = write_relation(con, _settle_kernels(rows, decoded, recordings), work / "pc_settled.parquet")
    samples = f"SELECT {row_of(SAMPLE, HOTSPOTS['samples'])} FROM {rows}"
    code = HOTSPOTS["samples"] | HOTSPOTS["instructions"] | {"class": class_sql("instruction")}
    instructions = f"SELECT {row_of(INSTRUCTION, code)} FROM {rows}"
    if decoded:
        instructions = f"{_sampled_functions(rows, decoded, stored)} UNION ALL {instructions}"
    notes = [Note("code", text) for text in missing]
    return HotspotQueries(
        _PROFILER, samples, instructions, without_code=_NO_CODE, without_kernel=_NO_KERNEL, notes=notes
    )


def _repeated_launches(main: Sequence[ProcessRecording], item: ProcessRecording, process: int | None) -> str:
    """Return SQL for row, dispatch_id and kernel of a process of another run: rows of the main pass that it repeats."""
    if not item.rows:
        return "SELECT NULL::BIGINT AS row, -1::BIGINT AS dispatch_id, NULL::VARCHAR AS kernel"
    if not main or process is None or process >= len(main):
        return f"SELECT NULL::BIGINT AS row, dispatch_id, kernel FROM ({item.select()})"
    theirs = f"SELECT key AS id, dispatch_id, kernel, grid, workgroup_size FROM ({item.select()})"
    ours = f"SELECT row AS id, kernel, grid, workgroup_size FROM ({launches(main)}) WHERE process = {process}"
    return f"SELECT repeats AS row, dispatch_id, kernel FROM ({pair_repeated_launches(theirs, ours)})"


def _process_samples(number: int, item: ProcessRecording, known: str, has_launches: bool) -> str:
    """Return SQL for the samples of a process with the row and kernel of their launch, from the SELECT ``known``."""
    assert item.sampled is not None
    return layout_sql(
        "samples_of_process",
        number=number,
        # A profile without launches refers to them by its own numbers.
        own="NULL" if has_launches else "s.dispatch_id",
        columns=", ".join(f's."{c}"' for c in SAMPLE_COLUMNS if c != "dispatch_id"),
        samples=item.sampled.samples,
        known=known,
        entries=item.sampled.entries or layout_sql("no_entries"),
    )


def _settle_kernels(rows: str, decoded: str, sampled: Sequence[ProcessRecording]) -> str:
    """Return SQL for the samples, in which the code determines the kernel of launches that are unknown."""
    kernels = " UNION ALL ".join(
        layout_sql("kernels_of_code", number=n, entries=item.sampled.entries)
        for n, item in enumerate(sampled)
        if item.sampled and item.sampled.entries
    )
    return layout_sql(
        "settled_kernels", rows=rows, decoded=decoded, kernels=kernels or layout_sql("no_kernels_of_code")
    )


def _objects(con: Connection, sampled: Sequence[ProcessRecording], staged: str) -> list[_SampledCodeObject]:
    """Return the code objects with samples, those with most samples first."""
    uris = " UNION ALL ".join(
        f"SELECT {n} AS process, * FROM ({r.sampled.objects})"
        for n, r in enumerate(sampled)
        if r.sampled and r.sampled.objects
    )
    empty = f"SELECT -1 AS process, {', '.join(f'NULL::{kind} AS {c}' for c, kind in OBJECT.items())}"
    rows = con.execute(
        f"SELECT process, code_object, any_value(uri) FROM {staged} LEFT JOIN ({uris or empty}) "
        "USING (process, code_object) WHERE code_object IS NOT NULL GROUP BY process, code_object "
        "ORDER BY sum(count) DESC, 1, 2"
    ).fetchmany(_MOST_FILES * _MOST_OBJECTS)
    return [_SampledCodeObject(n, process, own, uri or "") for n, (process, own, uri) in enumerate(rows)]


def _object_name(one: _SampledCodeObject) -> str:
    """Return a name that is the same for the same code: file and part of it, else process and number."""
    kind, _, rest = one.uri.partition("://")
    path, _, part = rest.partition("#")
    if kind == "file" and path:
        return f"{posixpath.basename(path)}#{part}" if part else posixpath.basename(path)
    return f"code object {one.own}" + (f" of process {one.process}" if one.process else "")


def _decode_objects(
    spool: Spool, profile: SampledProfile, sampled: Sequence[ProcessRecording],
    objects: Sequence[_SampledCodeObject],
    staged: str,
) -> list[str]:  # fmt: skip
    """Spool what was decoded (hotspots.decoded in layouts.toml); return reasons for failures.

    ``staged`` is a FROM item with the samples.
    """
    con, work = spool.con, spool.stem.parent
    missing = []
    places = sorted(profile.folder.rglob("*"), key=lambda p: (len(p.parts), p)) if profile.folder.is_dir() else []
    codes = (p for p in places if p.suffix in _SUFFIXES and p.is_file() and is_inside(p, profile.folder))
    files = [*profile.code, *islice(codes, _MOST_FILES)]
    until = time.monotonic() + _PATIENCE_S
    for one in objects[:_MOST_OBJECTS]:
        item = sampled[one.process].sampled
        candidates = sorted(files, key=lambda f: not f.stem.endswith(f"code_object_id_{one.own}"))
        if not candidates or item is None:
            continue
        rows = con.execute(
            f'SELECT "offset", max(instruction), sum(count) FROM {staged} WHERE process = {one.process} '
            f'AND code_object = {one.own} AND "offset" >= 0 GROUP BY 1 ORDER BY 3 DESC, 1'
        ).fetchmany(_MOST_PLACES)
        kernels = con.execute(
            f"SELECT symbol, max(start) FROM ({item.entries}) WHERE code_object = {one.own} GROUP BY 1"
        ).fetchmany(_MOST_PLACES) if item.entries else []  # fmt: skip
        reasons = []
        for file in candidates:
            if time.monotonic() > until:
                reasons.append("searching for the code of samples took too long and was stopped")
                break
            progress.report(f"searched {file.name} for the code of samples")
            resolution = resolve_code(
                CodeQuery(file, [offset for offset, *_ in rows], profile.gpu, dict(kernels)), work
            )
            reasons += resolution.missing
            if resolution.code and (other := _first_difference(resolution.code, rows)):
                reasons.append(f"{file.name}: it is another build: {other}")
            elif resolution.code:
                spool.add([_row(one, code) for code in resolution.code.values()])
                reasons = resolution.missing
                break
        missing += reasons
    distinct_reasons = list(dict.fromkeys(missing))
    if len(distinct_reasons) > _MOST_REASONS:
        distinct_reasons[_MOST_REASONS:] = [
            f"{len(distinct_reasons) - _MOST_REASONS} more files that might contain the code of samples did not help "
            "either."
        ]
    return distinct_reasons


def _first_difference(code: dict[int, DecodedInstruction], rows: Sequence[tuple[int, str | None, int]]) -> str:
    """Describe the first sampled instruction that differs from the code; empty if none differs."""
    for offset, text, _ in rows:
        own = code[offset].text if offset in code else ""
        if text and own and text.split() != own.split():
            return f"at {offset:#x} it has {own!r}, and the profile {text[:80]!r}"
    return ""


def _row(one: _SampledCodeObject, code: DecodedInstruction) -> tuple[Any, ...]:
    chain = [f"{f.function} at {f.file}:{f.line}" for f in reversed(code.place.inlined)]
    return (
        one.number, code.offset, code.function, code.text or None, code.kind, code.place.file, code.place.line,
        " > ".join(chain) or None, code.target, ",".join(map(str, code.waits_for)) or None,
        None if code.spill is None else int(code.spill),
    )  # fmt: skip


def _sampled_functions(rows: str, decoded: str, launches: str) -> str:
    """Return SQL for the instructions of all sampled functions, for every launch configuration with samples."""
    return layout_sql(
        "sampled_functions",
        columns=row_of(INSTRUCTION, HOTSPOTS["functions"]),
        rows=rows,
        decoded=decoded,
        alike="kernel, name, object, function" + (", launch" if launches else ""),
        configurations=f"LEFT JOIN (SELECT row, launch FROM {launches}) USING (row)" if launches else "",
    )
