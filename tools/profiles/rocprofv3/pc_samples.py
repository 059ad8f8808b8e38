"""Program counter samples of rocprofv3, from its CSV files, its JSON records, and rocpd tables.

Formats: rocprofiler-sdk's documentation of rocprofv3 (PC sampling), its header pc_sampling.h, and the rocpd schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..merging.contract import Connection, count_rows, one_row, parquet, row_of, write_relation
from ..merging.ranks import sql_value
from ..merging.wording import refusal
from ..parsing.csv_file import stage_columns
from .layouts import SAMPLES
from .outputs import SAMPLE_KINDS as KINDS
from .outputs import Output
from .recording import ENTRY, OBJECT, SAMPLE_COLUMNS, ProcessSamples

if TYPE_CHECKING:
    from .rocpd import Staging

REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
"""Prefix of the profiler's stall reasons."""
_LARGEST = 2**63 - 1
_KEYS = 200_000
"""Number of different samples that are counted in memory before they are spooled."""
_MOST_TEXTS = 2_000_000
_TEXT = 2000


def _columns_of(kind: str) -> str:
    """Return the picks of a SELECT from rows of a kind (layouts.toml) with the columns of samples."""
    return row_of(SAMPLE_COLUMNS, SAMPLES[kind], "TRY_CAST")


def merge_equal_samples(select: str, *more: str) -> str:
    """Return SQL that combines equal samples, also in the columns ``more``, and adds up their counts."""
    keys = ", ".join([*more, *(f'"{c}"' for c in SAMPLE_COLUMNS if c != "count")])
    return f"SELECT {keys}, CAST(sum(count) AS BIGINT) AS count FROM ({select}) GROUP BY {keys}"


# -- CSV ------------------------------------------------------------------------------------------------------------

_NEEDED = ("Dispatch_Id", "Instruction")
_OPTIONAL = ("Instruction_Comment", "Wave_Issued_Instruction", "Stall_Reason", "Exec_Mask")


def csv_samples(con: Connection, output: Output, work: Path) -> ProcessSamples | None:
    """Return the samples in the CSV files of an output, which state no addresses; None if it has none.

    Raises BadInput if a file is damaged.
    """
    parts = []
    for kind in (k for k in KINDS if k in output.files):
        staged = work.with_name(f"{work.name}_of_{kind}.parquet")
        stage_columns(con, output.files[kind], _NEEDED, staged, _OPTIONAL)
        (rows, bad) = one_row(
            con,
            "SELECT count(*), count(*) FILTER (TRY_CAST(Dispatch_Id AS BIGINT) IS NULL OR Instruction IS NULL) "
            f"FROM {parquet([staged])}",
        )
        if bad:
            name = output.files[kind].name
            raise refusal("damaged_samples", file=name, bad=bad, rows=rows)
        samples = merge_equal_samples(f"SELECT {_columns_of('csv')} FROM {parquet([staged])}")
        compact = write_relation(con, samples, work.with_name(f"{work.name}_samples_{kind}.parquet"))
        staged.unlink()
        parts.append(f"SELECT * FROM {compact}")
    return ProcessSamples(" UNION ALL ".join(parts)) if parts else None


# -- JSON -----------------------------------------------------------------------------------------------------------


class EqualRowCounter:
    """Counts equal rows, with a bounded number of different rows in memory; the rest is passed on."""

    def __init__(self, take: Callable[[list[tuple[Any, ...]]], object]) -> None:
        self._take = take
        self._rows: Counter[tuple[Any, ...]] = Counter()

    def add(self, row: tuple[Any, ...]) -> None:
        """Count a row once more."""
        self._rows[row] += 1
        if len(self._rows) >= _KEYS:
            self.close()

    def close(self) -> None:
        """Pass on the rows counted so far."""
        self._take([(*row, count) for row, count in self._rows.items()])
        self._rows.clear()


def part_of(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object below ``name``; an empty one if there is none."""
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}


def sample_of(value: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return launch, code object, offset, text, issued, reason and active lanes of one JSON record."""
    record = part_of(value, "record")
    place, reason = part_of(record, "pc"), part_of(record, "snapshot").get("stall_reason")
    reason = str(reason)[:_TEXT].removeprefix(REASON) if isinstance(reason, str) else None
    return (
        _whole(record.get("dispatch_id")),
        _whole(place.get("code_object_id")),
        _whole(place.get("code_object_offset")),
        _whole(value.get("inst_index")),
        _whole(record.get("wave_issued")),
        reason,
        mask.bit_count() if isinstance(mask := record.get("exec_mask"), int) and 0 <= mask < 1 << 64 else None,
    )


def sample_texts(strings: Mapping[str, Any]) -> Iterator[tuple[int, tuple[Any, Any]]]:
    """Yield number, instruction and comment of the texts that samples refer to."""
    texts, comments = (
        entries
        if isinstance(entries := strings.get(f"pc_sample_{kind}"), Sequence) and not isinstance(entries, str)
        else ()
        for kind in ("instructions", "comments")
    )
    for number, text in enumerate(texts[:_MOST_TEXTS]):
        comment = comments[number] if number < len(comments) else None
        yield number, (str(text)[:_TEXT], comment[:_TEXT] if isinstance(comment, str) else None)


def json_samples(select: Callable[..., str]) -> ProcessSamples:
    """Return the samples of one process of a JSON file; ``select`` returns the SQL of layouts.toml for its rows."""
    starts = {"symbol": "linked", "start": "address - delta"} | {c: c for c in ("code_object", "kernel")}
    return ProcessSamples(
        select("samples", columns=_columns_of("json")),
        select("objects"),
        select("entries", columns=row_of(ENTRY, starts, "TRY_CAST")),
    )


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and -_LARGEST <= value <= _LARGEST else None


# -- rocpd ----------------------------------------------------------------------------------------------------------

_TABLE, _PLAIN = "rocpd_gpu_pc_sample", "rocpd_pc_sampling"
"""Table of samples with addresses, and a table with texts that a fork of the SDK writes."""
_CODE, _SYMBOLS = "rocpd_info_code_object", "rocpd_info_kernel_symbol"


@dataclass(frozen=True)
class DatabaseSamples:
    """The staged samples of all processes of a database, as SELECTs with the columns session and process."""

    _samples: str
    _objects: str
    _entries: str

    def processes(self, con: Connection) -> list[tuple[int, int]]:
        """Return session and process of the processes with samples."""
        result = con.execute(f"SELECT DISTINCT session, process FROM ({self._samples}) WHERE process IS NOT NULL")
        return [(int(session), int(process)) for session, process in result.fetchmany(_MOST_TEXTS)]

    def of_process(self, session: int, process: int | None) -> ProcessSamples | None:
        """Return the samples of one process."""
        own = f"WHERE session = {session} AND (process IS NULL OR process IS NOT DISTINCT FROM {sql_value(process)})"
        columns = ", ".join(f'"{c}"' for c in SAMPLE_COLUMNS)
        return ProcessSamples(
            f"SELECT {columns} FROM ({self._samples}) {own}",
            f"SELECT {', '.join(OBJECT)} FROM ({self._objects}) {own}" if self._objects else "",
            f"SELECT {', '.join(ENTRY)} FROM ({self._entries}) {own}" if self._entries else "",
        )


def database_samples(staging: Staging) -> DatabaseSamples | None:
    """Return the samples of a database; None if it has none."""
    con, db = staging.con, staging.db
    parts = [staging.select("samples_by_address", columns=_columns_of("address"))] if db.parts(_TABLE) else []
    if db.parts(_PLAIN):  # samples with the columns of the CSV files
        parts.append(staging.select("samples_with_texts", columns=_columns_of("text")))
    if not parts:
        return None
    merged = merge_equal_samples(" UNION ALL ".join(parts), "session", "process")
    staged = write_relation(con, merged, staging.file("samples.parquet"))
    if not count_rows(con, staged):
        return None
    objects = staging.select("code_objects") if db.parts(_CODE) else ""
    entries = staging.select("entries") if db.parts(_SYMBOLS) else ""
    return DatabaseSamples(f"SELECT * FROM {staged}", objects, entries)
