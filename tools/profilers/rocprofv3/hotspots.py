"""Samples of the program counter of a run as the tables samples and instructions, with the code around them."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.database import sql_literal
from ....analysis.notes import Note
from ....analysis.store import write_table
from ... import progress
from ...codeobject.isa import class_sql
from ...codeobject.resolve import Asked, Decoded, resolve
from ..tables.again import repeating
from ..tables.contract import parquet, row_of
from ..tables.files import WORK, is_inside
from ..tables.hotspots import INSTRUCTION, SAMPLE, Hotspots, write_hotspots
from ..tables.merge import Merged
from ..tables.names import NO_NAME
from ..tables.spool import Spool
from .launching import launches
from .recording import OBJECT, SAMPLED, Recording

if TYPE_CHECKING:
    import duckdb

_PROFILER = "rocprofv3"
_MOST_OBJECTS, _MOST_FILES, _MOST_PLACES = 12, 40, 50_000
"""Code objects that are looked into, those with most samples first; files of the profile's folder that may be one;
addresses that are asked for."""
_TOLD = 4
"""Files of which is said why they told nothing."""
_PATIENCE_S = 180.0
"""After which no further file is looked into."""
_SUFFIXES = (".out", ".hsaco", ".co", ".o", ".so", ".elf", ".ccob")
_ARROW = " -> "
_PLACE = r"^(.{1,1000}):(\d{1,9})$"
_CODE = [
    ("object", "BIGINT"), ("place", "BIGINT"), ("function", "VARCHAR"), ("instruction", "VARCHAR"),
    ("kind", "VARCHAR"), ("source_file", "VARCHAR"), ("source_line", "BIGINT"), ("inlined", "VARCHAR"),
    ("target", "BIGINT"), ("waits_for", "VARCHAR"), ("spill", "BIGINT"),
]  # fmt: skip
_NO_KERNEL = (
    "The samples do not tell their kernels, as launches were not traced beside them: profile again with "
    "--kernel-trace, or in JSON."
)
_NO_CODE = (
    "have an address and no instruction: a database of rocprofv3 holds none by itself. Import with code= naming the "
    "program or its code object, or profile in JSON or CSV."
)


@dataclass(frozen=True)
class Spots:
    """What samples are written of: the processes of the main pass, others, and where their code may lie."""

    folder: Path
    main: Sequence[Recording]
    others: Sequence[tuple[Recording, int | None]]
    """Each with the number of the process in the main pass that it repeats."""
    gpu: str | None
    code: Sequence[Path] = ()
    """Files with the code, which the user named."""


@dataclass(frozen=True)
class _Object:
    """A code object with samples: its number in the whole workload, and where it was loaded from."""

    number: int
    process: int
    own: int
    """Its number in its process."""
    uri: str


def write_samples(con: duckdb.DuckDBPyConnection, out: Path, spots: Spots, merged: Merged) -> None:
    """Write the tables of samples, where there are any; what is to be said of them goes to ``merged``."""
    every = [*((r, n, False) for n, r in enumerate(spots.main)), *((r, n, True) for r, n in spots.others)]
    if not (found_in := [(r, n, repeats) for r, n, repeats in every if r.sampled]):
        return
    sampled = [r for r, *_ in found_in]
    work = out / WORK
    staged = work / "pc_samples.parquet"
    parts = [
        _of(number, item, _repeated(spots.main, item, n) if repeats else _own(spots.main, n), bool(spots.main))
        for number, (item, n, repeats) in enumerate(found_in)
    ]
    write_table(con, " UNION ALL ".join(parts), staged)
    objects = _objects(con, sampled, staged)
    decoded, missing = _decoded(con, spots, sampled, objects, staged)
    places = ", ".join(f"({o.process}, {o.own}, {o.number}, {sql_literal(_named(o))})" for o in objects)
    named = f"(SELECT * FROM (VALUES {places or '(-1, -1, -1, NULL)'}) v(process, code_object, object, name))"
    rows = f"(SELECT s.*, object, name FROM {parquet([staged])} s LEFT JOIN {named} USING (process, code_object))"
    if decoded:
        settled = work / "pc_settled.parquet"
        write_table(con, _settled(rows, decoded, sampled), settled)
        rows = parquet([settled])
    texts = {
        "row": "row", "dispatch_id": "known_id", "kernel": "kernel", "code_object": "name", "offset": '"offset"',
        "instruction": "instruction", "source_file": _file("comment"), "source_line": _line("comment"),
    }  # fmt: skip
    counts = {"stall_raw": "stall_raw", "issued": "issued", "lanes": "lanes * count", "count": "count"}
    samples = f"SELECT {row_of(SAMPLE, texts | counts)} FROM {rows}"
    code = texts | {"class": class_sql("instruction"), "inlined": _chain("comment")}
    instructions = f"SELECT {row_of(INSTRUCTION, code)} FROM {rows}"
    if decoded:
        instructions = f"{_around(rows, decoded, out / 'dispatches.parquet')} UNION ALL {instructions}"
    found = write_hotspots(con, out, Hotspots(_PROFILER, samples, instructions))
    staged.unlink()
    merged.samples += found.samples
    merged.warnings += found.warnings
    merged.notes += [*found.notes, *(Note("code", text) for text in missing)]
    (nameless, bare) = con.execute(
        f"SELECT count(*) FILTER (kernel = '{NO_NAME}'), "
        'coalesce(sum(count) FILTER (instruction IS NULL AND "offset" IS NOT NULL), 0) '
        f"FROM {parquet([out / 'samples.parquet'])}"
    ).fetchone() or (0, 0)
    if bare:
        share = f"{100 * bare / found.samples:.0f} % of the samples"
        merged.notes.append(Note("samples_without_code", f"{share} {_NO_CODE}"))
    if nameless:
        merged.notes.append(Note("samples_without_kernel", _NO_KERNEL))


def _own(main: Sequence[Recording], process: int | None) -> str:
    """SQL: row, dispatch_id and kernel of the launches of a process of the main pass."""
    return f"SELECT row, dispatch_id, kernel FROM ({launches(main)}) WHERE process = {process}"


def _repeated(main: Sequence[Recording], item: Recording, process: int | None) -> str:
    """SQL: the same for a process of another run of the program: its launches by those of the main pass that they
    repeat."""
    if not item.rows:
        return "SELECT NULL::BIGINT AS row, -1::BIGINT AS dispatch_id, NULL::VARCHAR AS kernel"
    if not main or process is None or process >= len(main):
        return f"SELECT NULL::BIGINT AS row, dispatch_id, kernel FROM ({item.select()})"
    theirs = f"SELECT key AS id, dispatch_id, kernel, grid, workgroup_size FROM ({item.select()})"
    ours = f"SELECT row AS id, kernel, grid, workgroup_size FROM ({launches(main)}) WHERE process = {process}"
    return f"SELECT repeats AS row, dispatch_id, kernel FROM ({repeating(theirs, ours)})"


def _of(number: int, item: Recording, known: str, launched: bool) -> str:
    """SQL for the samples of a process with the row of their launch and its kernel, which ``known`` tells.

    Where the launch is not known, the code object tells the kernel: the last one that begins before the sample.
    """
    assert item.sampled is not None
    columns = ", ".join(f's."{c}"' for c in SAMPLED if c != "dispatch_id")
    entries = item.sampled.entries or (
        "SELECT -1::BIGINT AS code_object, -1::BIGINT AS start, NULL AS kernel, NULL AS symbol"
    )
    # A profile without launches names them by its own numbers.
    own = "NULL" if launched else "s.dispatch_id"
    return (
        f"SELECT {number} AS process, k.row, {own} AS known_id, coalesce(k.kernel, e.kernel) AS kernel, "
        f"k.kernel IS NOT NULL AS launched, {columns} "
        f"FROM ({item.sampled.samples}) s LEFT JOIN (SELECT DISTINCT ON (dispatch_id) * FROM ({known})) k "
        "ON k.dispatch_id = s.dispatch_id "
        f"ASOF LEFT JOIN (SELECT * FROM ({entries}) WHERE start IS NOT NULL) e "
        'ON e.code_object = s.code_object AND s."offset" >= e.start'
    )


def _settled(rows: str, decoded: str, sampled: Sequence[Recording]) -> str:
    """SQL: the samples, of launches that are not known with the kernel that the code tells.

    What lies behind a kernel may be a function that others call: its samples belong to the kernel that the launch ran
    otherwise, else to the function itself.
    """
    kernels = " UNION ALL ".join(
        f"SELECT DISTINCT ON (code_object, symbol) {n} AS process, code_object, "
        f"regexp_replace(symbol, '\\.kd$', '') AS function, kernel AS own FROM ({item.sampled.entries})"
        for n, item in enumerate(sampled)
        if item.sampled and item.sampled.entries
    )
    kernels = kernels or "SELECT -1 AS process, -1::BIGINT AS code_object, NULL::VARCHAR AS function, NULL AS own"
    told = (
        f'SELECT s.*, f.function, n.own FROM {rows} s LEFT JOIN (SELECT object, place AS "offset", function '
        f'FROM {decoded}) f USING (object, "offset") LEFT JOIN ({kernels}) n USING (process, code_object, function)'
    )
    most = (
        "SELECT process, known_id, arg_max(own, n) AS ran FROM (SELECT process, known_id, own, sum(count) AS n "
        "FROM told WHERE own IS NOT NULL GROUP BY ALL) GROUP BY ALL"
    )
    kernel = "CASE WHEN launched OR function IS NULL THEN kernel ELSE coalesce(own, ran, function) END AS kernel"
    return (
        f"WITH told AS ({told}) SELECT told.* EXCLUDE (function, own) REPLACE ({kernel}) "
        f"FROM told LEFT JOIN ({most}) USING (process, known_id)"
    )


def _objects(con: duckdb.DuckDBPyConnection, sampled: Sequence[Recording], staged: Path) -> list[_Object]:
    """The code objects with samples, those with most first."""
    uris = " UNION ALL ".join(
        f"SELECT {n} AS process, * FROM ({r.sampled.objects})"
        for n, r in enumerate(sampled)
        if r.sampled and r.sampled.objects
    )
    empty = f"SELECT -1 AS process, {', '.join(f'NULL::{kind} AS {c}' for c, kind in OBJECT.items())}"
    rows = con.execute(
        f"SELECT process, code_object, any_value(uri) FROM {parquet([staged])} LEFT JOIN ({uris or empty}) "
        "USING (process, code_object) WHERE code_object IS NOT NULL GROUP BY process, code_object "
        "ORDER BY sum(count) DESC, 1, 2"
    ).fetchmany(_MOST_FILES * _MOST_OBJECTS)
    return [_Object(n, process, own, uri or "") for n, (process, own, uri) in enumerate(rows)]


def _named(one: _Object) -> str:
    """The name under which its code is the same: file and part of it, else process and number."""
    kind, _, rest = one.uri.partition("://")
    path, _, part = rest.partition("#")
    if kind == "file" and path:
        return f"{posixpath.basename(path)}#{part}" if part else posixpath.basename(path)
    return f"code object {one.own}" + (f" of process {one.process}" if one.process else "")


def _decoded(
    con: duckdb.DuckDBPyConnection, spots: Spots, sampled: Sequence[Recording], objects: Sequence[_Object],
    staged: Path,
) -> tuple[str, list[str]]:  # fmt: skip
    """A FROM item with the columns _CODE of what could be decoded, empty for nothing; and why not, in words."""
    work = staged.parent
    spool = Spool(con, work / "pc_code", _CODE)
    missing: list[str] = []
    files = [*spots.code, *_files(spots.folder)]
    until = time.monotonic() + _PATIENCE_S
    for one in objects[:_MOST_OBJECTS]:
        item = sampled[one.process].sampled
        candidates = sorted(files, key=lambda f: not f.stem.endswith(f"code_object_id_{one.own}"))
        if not candidates or item is None:
            continue
        rows = con.execute(
            f'SELECT "offset", max(instruction), sum(count) FROM {parquet([staged])} WHERE process = {one.process} '
            f'AND code_object = {one.own} AND "offset" >= 0 GROUP BY 1 ORDER BY 3 DESC, 1'
        ).fetchmany(_MOST_PLACES)
        kernels = con.execute(
            f"SELECT symbol, max(start) FROM ({item.entries}) WHERE code_object = {one.own} GROUP BY 1"
        ).fetchmany(_MOST_PLACES) if item.entries else []  # fmt: skip
        reasons: list[str] = []
        for file in candidates:
            if time.monotonic() > until:
                reasons.append("looking for the code of samples took too long: it was given up")
                break
            progress.report(f"looked for the code of samples in {file.name}")
            found = resolve(Asked(file, [offset for offset, *_ in rows], spots.gpu, dict(kernels)), work)
            reasons += found.missing
            if found.code and (other := _differs(found.code, rows)):
                reasons.append(f"{file.name}: it is another build: {other}")
            elif found.code:
                spool.add([_row(one, code) for code in found.code.values()])
                reasons = found.missing
                break
        missing += reasons
    written = spool.close()
    told = list(dict.fromkeys(missing))
    if len(told) > _TOLD:
        told[_TOLD:] = [f"{len(told) - _TOLD} more files that may have held the code of samples told nothing either."]
    return (parquet(written) if spool.rows else ""), told


def _files(folder: Path) -> Iterator[Path]:
    """Files of a profile's folder that may hold code."""
    places = sorted(folder.rglob("*"), key=lambda p: (len(p.parts), p)) if folder.is_dir() else []
    found = (p for p in places if p.suffix in _SUFFIXES and p.is_file() and is_inside(p, folder))
    return islice(found, _MOST_FILES)


def _differs(code: dict[int, Decoded], rows: Sequence[tuple[int, str | None, int]]) -> str:
    """Which sampled instruction is another one in the code; empty where none is."""
    for offset, text, _ in rows:
        own = code[offset].text if offset in code else ""
        if text and own and text.split() != own.split():
            return f"at {offset:#x} it has {own!r}, and the profile {text[:80]!r}"
    return ""


def _row(one: _Object, code: Decoded) -> tuple[Any, ...]:
    chain = [f"{f.function} at {f.file}:{f.line}" for f in reversed(code.place.inlined)]
    return (
        one.number, code.offset, code.function, code.text or None, code.kind, code.place.file, code.place.line,
        " > ".join(chain) or None, code.target, ",".join(map(str, code.waits_for)) or None,
        None if code.spill is None else int(code.spill),
    )  # fmt: skip


def _around(rows: str, decoded: str, dispatches: Path) -> str:
    """SQL: the instructions of all functions that were sampled, for every launch configuration that has samples."""
    where = (
        "SELECT DISTINCT row, known_id, kernel, name, object, function "
        f'FROM {rows} JOIN (SELECT object, place AS "offset", function FROM {decoded}) USING (object, "offset")'
    )
    alike = "kernel, name, object, function"
    if dispatches.exists():
        stored = f"SELECT file_row_number AS row, launch FROM {parquet([dispatches], numbered=True)}"
        where, alike = f"SELECT * FROM ({where}) LEFT JOIN ({stored}) USING (row)", f"{alike}, launch"
    once = f"SELECT DISTINCT ON ({alike}) * FROM ({where}) ORDER BY ALL"
    known = {
        "row": "row", "dispatch_id": "known_id", "kernel": "kernel", "code_object": "name", "offset": "place",
        "class": "kind", "inlined": "inlined", "target": "target", "waits_for": "waits_for", "spill": "spill",
        "instruction": "instruction", "source_file": "source_file", "source_line": "source_line",
    }  # fmt: skip
    return f"SELECT {row_of(INSTRUCTION, known)} FROM ({once}) JOIN {decoded} USING (object, function)"


def _file(comment: str) -> str:
    """SQL: the file of the innermost place in a comment."""
    return f"nullif(regexp_extract({_innermost(comment)}, '{_PLACE}', 1), '')"


def _line(comment: str) -> str:
    """SQL: its line."""
    return f"nullif(TRY_CAST(regexp_extract({_innermost(comment)}, '{_PLACE}', 2) AS BIGINT), 0)"


def _innermost(comment: str) -> str:
    return f"split_part({comment}, '{_ARROW}', 1)"


def _chain(comment: str) -> str:
    """SQL: where its code was inlined, outermost first; the functions are not told."""
    places = f"list_reverse(string_split({comment}, '{_ARROW}')[2:])"
    return f"nullif(array_to_string(['at ' || x FOR x IN {places}], ' > '), '')"
