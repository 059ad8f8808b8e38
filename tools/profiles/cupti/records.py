"""The file format of the recorder: chunks of records of one kind, staged in Parquet as they are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....analysis.base.text import count_text
from ....analysis.store.store import write_table
from ...base import progress
from ...base.profile_files import head, open_regular
from ...base.untrusted_text import bounded_name, plain_text
from ..merging.contract import Connection, parquet
from ..merging.ranks import ProcessPlace, host_name
from ..merging.wording import refusal
from ..parsing.module_data import module_data
from ..parsing.spool import Spool

TIMING = "timing"
"""The step of a run in which the program was recorded for times only, and the name of its folder."""
SUFFIX = ".record"
MAGIC = b"RFLREC1\n"
_CHUNK = struct.Struct("<4sIQ")
_NAME = struct.Struct("<II")
_LAYOUTS: dict[str, dict[str, str]] = module_data(__file__)
STAGED = ("KERN", "LNCH", "MARK", "CALL", "COPY", "FILL", "OVHD", "FRAM", "NODE", "SITE")
"""Kinds whose records are staged in Parquet; there are only few records of the others."""
_BLOCK = 8 << 20
_ROWS = 400_000
"""Number of records that are written at once."""
_LONGEST = 1 << 16
"""Maximum bytes of a record."""
_TEXTS = 256 << 20
"""Maximum bytes of one chunk of texts: a buffer of 1 MiB cannot refer to more."""
_MOST_DEVICES, _MOST_FAILURES = 4096, 20


@dataclass
class CuptiDevice:
    """One GPU, with its number within a process."""

    id: int
    uuid: str
    arch: str
    name: int
    facts: dict[str, float]


@dataclass
class CuptiRecording:
    """Metadata of the recording of one process; its records are staged with ``number`` in the column ``file``."""

    file: Path
    number: int
    info: dict[str, str] = field(default_factory=dict)
    devices: list[CuptiDevice] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGED, 0))
    lost: int = 0
    ended: bool = False
    """Whether the program ended normally, so that nothing is missing."""
    cut: bool = False
    """Whether the last chunk is incomplete."""

    @property
    def pid(self) -> int | None:
        return _number(self.info.get("process"))

    @property
    def rank(self) -> int | None:
        """The rank that a launcher such as torchrun or mpirun gave the process."""
        for variable in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
            if (rank := _number(self.info.get(variable))) is not None:
                return rank
        return None

    @property
    def place(self) -> ProcessPlace:
        """The rank, host and pid of the process."""
        return ProcessPlace(self.rank, host_name(self.info.get("host")), self.pid)

    @property
    def began(self) -> int:
        return _number(self.info.get("realtime_ns")) or 0

    @property
    def unix_shift(self) -> int | None:
        """CUPTI's clock minus Unix time in ns, as both were when the recording began."""
        stamp = _number(self.info.get("timestamp_ns"))
        return stamp - self.began if stamp and self.began else None


def is_record(file: Path) -> bool:
    """Return whether the file starts with the signature of the recorder."""
    return head(file, len(MAGIC)) == MAGIC


class Stage:
    """Tables of the records of all files: Parquet files for each kind of record, and the texts."""

    def __init__(self, con: Connection, folder: Path) -> None:
        self.con, self.folder = con, folder
        self.rows = 0
        """Number of rows of all files and kinds; the column ``row`` preserves their order."""
        self.parts: dict[str, list[Path]] = {kind: [] for kind in STAGED}
        self._waiting: dict[str, list[Any]] = {kind: [] for kind in STAGED}
        self._texts = Spool(con, folder / "cupti_texts", {"file": "BIGINT", "id": "BIGINT", "text": "VARCHAR"})

    def read(self, file: Path, number: int) -> CuptiRecording:
        """Stage the records of one file; BadInput if it is damaged. Killed programs may leave an incomplete end."""
        recording = CuptiRecording(file, number)
        size = file.stat().st_size
        with open_regular(file) as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise refusal("not_a_record", file=file)
            while start := stream.read(_CHUNK.size):
                if len(start) < _CHUNK.size:
                    recording.cut = True
                    break
                kind, record, length = _CHUNK.unpack(start)
                if stream.tell() + length > size:
                    recording.cut = True
                    length = size - stream.tell()
                self._chunk(recording, kind.decode("latin-1"), record, _blocks(stream, length, record))
        for kind in STAGED:
            self._write(recording, kind)
        self.parts["NAME"] = self._texts.close()
        progress.report(f"read {count_text(recording.counts['KERN'], 'launch')} of {file.name}")
        return recording

    def relation(self, kind: str) -> str:
        """Return a FROM item with the records of a kind, also if there are none."""
        if not self.parts[kind]:
            columns = ", ".join(f"NULL::BIGINT AS {name}" for name in ("file", "row", *_LAYOUTS[kind]))
            return f"(SELECT {columns} LIMIT 0)"
        return parquet(self.parts[kind])

    @property
    def names(self) -> str:
        """FROM item with file, id and text of the texts as names."""
        text = f"any_value({bounded_name('text')}) AS text"
        return f"(SELECT file, id, {text} FROM {self.relation('NAME')} GROUP BY file, id)"

    def text(self, recording: CuptiRecording, number: int) -> str:
        """Return the text with a number in a recording; empty if there is no such text."""
        row = self.con.execute(
            f"SELECT any_value(text) FROM {self.relation('NAME')} WHERE file = ? AND id = ?", [recording.number, number]
        ).fetchone()
        return str(row[0]) if row and row[0] is not None else ""

    def _chunk(self, recording: CuptiRecording, kind: str, record: int, blocks: Iterator[bytes]) -> None:
        if kind in _LAYOUTS:
            self._records(recording, kind, record, blocks)
        elif kind == "NAME":
            self._take_texts(recording, b"".join(_check_text_size(recording.file, blocks)))
        elif kind == "DONE":
            recording.ended = True
        elif kind in ("INFO", "FAIL"):
            text = b"".join(_check_text_size(recording.file, blocks)).decode("utf-8", "replace")
            if kind == "INFO":
                recording.info |= dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            elif len(recording.failures) < _MOST_FAILURES:
                recording.failures.append(plain_text(text, 200))
        elif kind == "LOST":
            recording.lost += sum(n for block in blocks for (n,) in struct.iter_unpack("<Q", block[: len(block) & ~7]))
        else:
            for _ in blocks:
                pass

    def _records(self, recording: CuptiRecording, kind: str, record: int, blocks: Iterator[bytes]) -> None:
        import numpy

        fields = list(_LAYOUTS[kind].items())
        size = numpy.dtype(fields).itemsize
        if not size <= record <= _LONGEST:
            raise refusal("wrong_records", file=recording.file, kind=kind, record=record, size=size)
        # Fields that a later recorder appends to a record are skipped.
        dtype = numpy.dtype([*fields, ("appended", f"V{record - size}")])
        for block in blocks:
            records = numpy.frombuffer(block, dtype, count=len(block) // record)
            if kind == "DEVC":
                recording.devices += [_device(one) for one in records[: _MOST_DEVICES - len(recording.devices)]]
                continue
            recording.counts[kind] += len(records)
            self._waiting[kind].append(records)
            if sum(map(len, self._waiting[kind])) >= _ROWS:
                self._write(recording, kind)

    def _take_texts(self, recording: CuptiRecording, payload: bytes) -> None:
        at = 0
        while at + _NAME.size <= len(payload):
            number, length = _NAME.unpack_from(payload, at)
            at += _NAME.size + length
            if at > len(payload):
                break
            self._texts.append((recording.number, number, payload[at - length : at].decode("utf-8", "replace")))

    def _write(self, recording: CuptiRecording, kind: str) -> None:
        """Write the waiting records as one Parquet file with a column for each number."""
        import numpy

        records = self._waiting[kind]
        if not records or not sum(map(len, records)):
            return
        first, columns = self.rows, dict[str, Any]()
        self.rows += sum(map(len, records))
        for name in _LAYOUTS[kind]:
            values = numpy.concatenate([part[name] for part in records])
            sides = zip("xyz", values.T.copy(), strict=True) if values.ndim > 1 else ()
            columns |= {f"{name}_{axis}": side for axis, side in sides} or {name: values}
        records.clear()
        columns["row"] = numpy.arange(first, self.rows, dtype="<i8")
        path = self.folder / f"cupti_{kind}_{len(self.parts[kind])}.parquet"
        cursor = self.con.cursor()  # separate, since a registration invalidates open results
        cursor.register("cupti_columns", columns)
        write_table(cursor, f"SELECT {recording.number} AS file, * FROM cupti_columns", path)
        cursor.close()
        self.parts[kind].append(path)


def _blocks(stream: Any, length: int, record: int) -> Iterator[bytes]:
    """Yield the bytes of a chunk in blocks of whole records."""
    step = max(record, _BLOCK // record * record) if 0 < record <= _BLOCK else _BLOCK
    while length > 0:
        block = stream.read(min(step, length))
        if not block:
            return
        length -= len(block)
        yield block


def _check_text_size(file: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if total > _TEXTS:
            raise refusal("too_many_texts", file=file, most=_TEXTS >> 20)
        yield block


def _device(record: Any) -> CuptiDevice:
    facts = {
        "cu_per_gpu": float(record["multiprocessors"]),
        "max_sclk": float(record["clock_khz"]) / 1000,
        "memory_bytes": float(record["memory_bytes"]),
    }
    return CuptiDevice(
        int(record["id"]),
        record["uuid"].tobytes().hex(),
        f"sm_{record['major']}{record['minor']}",
        int(record["name"]),
        {fact: value for fact, value in facts.items() if value},
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 20 else None
