"""The tables samples, instructions and source_lines: which instructions waves were at, and the code around them.

A reader spools rows with the columns SAMPLE, INSTRUCTION and SOURCE_LINE (spool.py, bounded memory) after the tables
of its launches are written, and passes SELECTs over them to ``write_hotspots``. Unknown values are NULL. A sample needs
no instruction text if an INSTRUCTION with its kernel, code object and offset has it; a sampled instruction needs no
INSTRUCTION row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ....analysis.base.notes import Note
from ....analysis.base.text import visible_sql
from ....analysis.hotspots.ranking import reason_sql
from ....analysis.store.store import write_table
from ...base import progress
from ...base.profile_files import WORK
from ...base.untrusted_text import NO_NAME, visible_name
from ..merging.contract import Connection, all_rows, count_rows, one_row, parquet, row_of
from ..merging.demangled_names import kernel_names
from ..merging.matching import pair_repeated_launches
from ..merging.wording import note
from ..parsing.module_data import module_data

_STATED: dict[str, dict[str, str]] = module_data(__file__)
_STATIC, SOURCE_LINE, COUNTS = _STATED["static"], _STATED["source_line"], tuple(_STATED["counts"])
SAMPLE, INSTRUCTION = _STATED["place"] | _STATED["sample"], _STATED["place"] | _STATIC | _STATED["counts"]
"""Column -> SQL type, and the names of what is counted per instruction."""
MOST_TEXT = 1000
"""Maximum characters that are stored of an instruction, a path or a chain of calls."""
MOST_LINE = 400
_LAST_LINE = 10**8
_MOST = 1 << 52
"""Largest valid count: sums of larger ones would not be exact, and no profile has them."""
_IS_PLAUSIBLE_COUNT = f"coalesce(count BETWEEN 1 AND {_MOST}, false)"


@dataclass(frozen=True)
class HotspotQueries:
    """The samples of a profile, as SELECTs with the columns SAMPLE, INSTRUCTION and SOURCE_LINE."""

    profiler: str
    """Profiler whose names of stall reasons the samples use, as in analysis/hotspots/stalls.toml."""
    samples: str = ""
    instructions: str = ""
    source_lines: str = ""
    without_code: str = ""
    """What to tell the user about samples with an address but no instruction; their share precedes it."""
    without_kernel: str = ""
    """What to tell the user about samples whose kernel is unknown."""
    warnings: list[Note] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def write_hotspots(con: Connection, out: Path, queries: HotspotQueries) -> tuple[int, list[Note], list[Note]]:
    """Write the tables below ``out``; the table dispatches, if the profile has launches, must already exist.

    Return the sum of the sample counts, warnings, and notes about the tables.

    Kernels get the same names as in dispatches. Samples with an impossible count are skipped, with a warning.
    """
    work = out / WORK
    samples = queries.samples or f"SELECT {row_of(SAMPLE, {})} WHERE false"
    instructions = queries.instructions or f"SELECT {row_of(INSTRUCTION, {})} WHERE false"
    warnings = list(queries.warnings)
    if bad := count_rows(con, f"({samples}) WHERE NOT {_IS_PLAUSIBLE_COUNT}"):
        warnings.append(note("samples_left_out", rows=bad))
    distinct = " UNION ".join(f"SELECT DISTINCT kernel AS name FROM ({rows})" for rows in (samples, instructions))
    kernels = kernel_names(con, out, f"SELECT name FROM ({distinct}) WHERE name IS NOT NULL")
    con.execute(f"CREATE OR REPLACE TABLE hotspot_names AS {kernels}")
    launches = "(SELECT NULL::BIGINT AS at, NULL::BIGINT AS id, NULL::VARCHAR AS of, NULL::INT AS launch WHERE false)"
    if stored := stored_launches(out):
        launches = f"(SELECT row AS at, dispatch_id AS id, kernel AS of, launch FROM {stored})"
    code = work / "hotspots_code.parquet"
    write_table(con, _merged_instructions(instructions, launches), code)
    reason = reason_sql(queries.profiler, _STATED["reason"].get(queries.profiler, "stall_raw"), "instruction")
    counted = work / "hotspots_samples.parquet"
    write_table(
        con, f"SELECT *, {reason} AS stall_reason FROM ({_summed_samples(samples, launches, parquet([code]))})", counted
    )
    rows = write_table(con, _all_instructions(parquet([code]), parquet([counted])), out / "instructions.parquet")
    progress.report(f"read {rows:,} instructions")
    (total, lined) = one_row(
        con,
        "SELECT coalesce(sum(count), 0), coalesce(sum(count) FILTER (source_line IS NOT NULL), 0) "
        f"FROM {parquet([counted])}",
    )
    order = ", ".join(
        f'"{c}"' for c in ("kernel", "launch", "code_object", "offset", "dispatch_id", "stall_raw", "issued")
    )
    columns = (
        'dispatch_id, kernel, launch, code_object, "offset", instruction, source_file, source_line, stall_reason, '
    )
    write_table(
        con,
        f"SELECT {columns} stall_raw, issued, CAST(count AS BIGINT) AS count, CAST(lanes AS BIGINT) AS lanes "
        f"FROM {parquet([counted])} "
        f"ORDER BY {order}",
        out / "samples.parquet",
    )
    if queries.source_lines:
        _write_source(con, out, queries.source_lines)
    con.execute("DROP TABLE hotspot_names")
    for file in work.glob("hotspots_*.parquet"):
        file.unlink()
    if total:
        share = f"{100 * lined / total:.0f} % of them with a source line" if lined else "none with a source line"
    summary = (
        note("samples.some", samples=int(total), share=share) if total else note("samples.none", instructions=rows)
    )
    return int(total), warnings, [summary, *queries.notes, *_incomplete_samples(con, out, queries)]


def _incomplete_samples(con: Connection, out: Path, queries: HotspotQueries) -> list[Note]:
    """Return notes on samples without an instruction or without a kernel, for profilers that say why."""
    nameless, bare, total = one_row(
        con,
        f"SELECT count(*) FILTER (kernel = '{NO_NAME}'), "
        'coalesce(sum(count) FILTER (instruction IS NULL AND "offset" IS NOT NULL), 0), sum(count) '
        f"FROM {parquet([out / 'samples.parquet'])}",
    )
    notes = []
    if bare and queries.without_code:
        notes.append(note("samples_without_code", share=100 * bare / total, without_code=queries.without_code))
    if nameless and queries.without_kernel:
        notes.append(Note("samples_without_kernel", queries.without_kernel))
    return notes


def stored_launches(out: Path) -> str:
    """Return a FROM item with ``row`` and the columns of the table dispatches below ``out``; empty without launches."""
    stored = out / "dispatches.parquet"
    return f"(SELECT file_row_number AS row, * FROM {parquet([stored], numbered=True)})" if stored.exists() else ""


def kernels_in(con: Connection, out: Path) -> int:
    """Return the number of kernels that profiles without launches name in other tables below ``out``."""
    files = [out / f"{name}.parquet" for name in ("samples", "instructions", "kernel_stats")]
    stored = [file for file in files if file.exists()]
    each = " UNION ".join(f"SELECT kernel FROM {parquet([file])} WHERE kernel != '{NO_NAME}'" for file in stored)
    return len(all_rows(con, each)) if each else 0


_FILE = f"regexp_replace(left(nullif({visible_name('source_file')}, '{NO_NAME}'), {MOST_TEXT}), '/(\\./)+', '/', 'g')"
"""SQL for a path that is safe to show, with ``/./`` removed: one file may appear as /src/./a.h and as /src/a.h."""


def _with_launches(rows: str, launches: str) -> str:
    """Return SQL for rows with kernel, launch and dispatch_id as in the workload, and with texts safe to show."""
    text = f"left(nullif({visible_name('instruction')}, '{NO_NAME}'), {MOST_TEXT}) AS instruction"
    line = f"CASE WHEN source_line BETWEEN 1 AND {_LAST_LINE} THEN CAST(source_line AS INT) END AS source_line"
    place = 'CASE WHEN "offset" >= 0 THEN "offset" END AS "offset"'
    object_ = f"left({visible_name('code_object')}, {MOST_TEXT})"
    return (
        f"SELECT r.* REPLACE ({text}, {_FILE} AS source_file, {line}, {place}, "
        f"CASE WHEN code_object IS NULL THEN '' ELSE {object_} END AS code_object, "
        "coalesce(a.id, b.id, r.dispatch_id) AS dispatch_id, "
        f"coalesce(a.of, b.of, n.shown, '{NO_NAME}') AS kernel), coalesce(a.launch, b.launch) AS launch "
        f"FROM ({rows}) r LEFT JOIN hotspot_names n ON n.name = r.kernel "
        f"LEFT JOIN {launches} a ON a.at = r.row LEFT JOIN {launches} b ON r.row IS NULL AND b.id = r.dispatch_id"
    )


_KEY = ("kernel", "launch", "code_object", "offset")
_SAME = " AND ".join(f's."{c}" IS NOT DISTINCT FROM c."{c}"' for c in _KEY)


def _merged_instructions(instructions: str, launches: str) -> str:
    """Return SQL for one row per instruction of a launch configuration: texts of one launch, sums of the counts."""
    texts = ", ".join(f'any_value("{c}") AS "{c}"' for c in ("instruction", "source_file", "source_line", *_STATIC))
    counts = ", ".join(f"CAST(sum(CASE WHEN {c} BETWEEN 0 AND {_MOST} THEN {c} END) AS BIGINT) AS {c}" for c in COUNTS)
    keys = ", ".join(f'"{c}"' for c in _KEY)
    apart = 'CASE WHEN "offset" IS NULL THEN concat_ws(chr(31), instruction, source_file, source_line) END'
    return (
        f"SELECT {keys}, {texts}, count(DISTINCT dispatch_id) AS launches, {counts} "
        f"FROM ({_with_launches(instructions, launches)}) GROUP BY {keys}, {apart}"
    )


def _summed_samples(samples: str, launches: str, code: str) -> str:
    """Return SQL for the samples, summed, with the texts of their instructions."""
    texts = ", ".join(f"coalesce(s.{c}, c.{c}) AS {c}" for c in ("instruction", "source_file", "source_line"))
    keys = ", ".join(f's."{c}"' for c in _KEY)
    return (
        f"SELECT {keys}, s.dispatch_id, {texts}, stall_raw, issued, sum(count) AS count, "
        f"CASE WHEN count(s.lanes) = count(*) THEN sum(s.lanes) END AS lanes "
        f"FROM ({_with_launches(f'SELECT * FROM ({samples}) WHERE {_IS_PLAUSIBLE_COUNT}', launches)}) s "
        f'LEFT JOIN {code} c ON s."offset" IS NOT NULL AND {_SAME} GROUP BY ALL'
    )


def _all_instructions(code: str, samples: str) -> str:
    """Return SQL for the table instructions: the given ones plus those that were only sampled."""
    keys = ", ".join(f'"{c}"' for c in _KEY)
    empty = (
        "".join(f', NULL::{kind} AS "{c}"' for c, kind in _STATIC.items()) + ", count(DISTINCT dispatch_id) AS launches"
    )
    empty += "".join(f", NULL::BIGINT AS {c}" for c in COUNTS)
    text = "instruction, source_file, source_line"
    alike = '(s."offset" IS NOT NULL OR c.instruction IS NOT DISTINCT FROM s.instruction)'
    known = f"SELECT 1 FROM {code} c WHERE {_SAME} AND {alike}"
    sampled_only = f"SELECT {keys}, {text}{empty} FROM {samples} s WHERE NOT EXISTS ({known}) GROUP BY {keys}, {text}"
    order = ", ".join(f'"{c}"' for c in (*_KEY, "instruction"))
    return f"FROM (SELECT * FROM {code} UNION ALL BY NAME {sampled_only}) ORDER BY {order}"


def _write_source(con: Connection, out: Path, lines: str) -> None:
    without_tabs = "replace(\"text\", chr(9), '    ')"
    text = f"left(rtrim({visible_sql(without_tabs)}), {MOST_LINE})"
    write_table(
        con,
        f'SELECT {_FILE} AS source_file, CAST(source_line AS INT) AS source_line, any_value({text}) AS "text" '
        f"FROM ({lines}) WHERE source_line BETWEEN 1 AND {_LAST_LINE} AND source_file IS NOT NULL "
        "GROUP BY ALL ORDER BY ALL",
        out / "source_lines.parquet",
    )


def take_samples(con: Connection, source: Path, out: Path) -> None:
    """Move the tables of samples below ``source`` to ``out``, and replace their launches by those of ``out``.

    ``pair_repeated_launches`` determines which launches correspond; samples of a kernel or size that ``out`` lacks
    refer to no launch.
    """
    theirs, ours = (folder / "dispatches.parquet" for folder in (source, out))
    pairs = _NO_REPEATS
    if theirs.exists():
        launched = "SELECT dispatch_id AS id, launch, kernel, grid, workgroup_size FROM"
        repeats = pair_repeated_launches(f"{launched} {parquet([theirs])}", f"{launched} {parquet([ours])}")
        pairs = (
            "SELECT t.id AS their_id, t.launch AS their_launch, t.kernel, o.dispatch_id AS id, o.launch "
            f"FROM ({repeats}) t LEFT JOIN {parquet([ours])} o ON o.dispatch_id = t.repeats"
        )
    for table in ("samples", "instructions", "source_lines"):
        if (file := source / f"{table}.parquet").exists():
            take_table(con, file, out, pairs)


def take_table(con: Connection, file: Path, out: Path, pairs: str) -> None:
    """Move one table to ``out``; samples and instructions get the launches that ``pairs`` gives for theirs, if any.

    ``pairs`` is a SELECT of their_id, their_launch, kernel, id and launch.
    """
    sizes = f"SELECT kernel, their_launch, min(launch) AS launch FROM ({pairs}) GROUP BY ALL"
    taken = {
        "samples": f"REPLACE (m.id AS dispatch_id, m.launch AS launch) FROM {parquet([file])} t "
        f"LEFT JOIN ({pairs}) m ON m.their_id = t.dispatch_id",
        "instructions": f"REPLACE (m.launch AS launch) FROM {parquet([file])} t "
        f"LEFT JOIN ({sizes}) m ON m.kernel = t.kernel AND m.their_launch = t.launch",
    }
    if pairs and file.stem in taken:
        write_table(
            con, f'SELECT t.* {taken[file.stem]} ORDER BY kernel, launch, code_object, "offset"', out / file.name
        )
    else:
        file.rename(out / file.name)


_NO_REPEATS = (
    "SELECT NULL::BIGINT AS their_id, NULL::INT AS their_launch, NULL::VARCHAR AS kernel, NULL::BIGINT AS id, "
    "NULL::INT AS launch"
)
