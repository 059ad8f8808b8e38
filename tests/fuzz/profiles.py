"""Profiles of the cases of the readers, whole to begin with and then spoilt: files by name, and which is to be read."""

from __future__ import annotations

import csv
import io
import json
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
from hypothesis import strategies as st

from rooflens.tests import DATA
from rooflens.tests.cases.readers.case import ReaderCase, reader_cases
from rooflens.tests.fuzz.mutations import CELLS, Draw, few, lines, octets, packed, table, tree
from rooflens.tests.unit.tools.code_objects.test_codeobject import BUNDLE, HSACO, elf, note

_LONGEST = 20_000
_LARGEST = 64_000


@dataclass(frozen=True)
class Spoilt:
    """Files below a folder, by their paths, and the one to read; an empty name is the folder itself."""

    files: dict[str, bytes]
    target: str = ""

    def __repr__(self) -> str:
        return f"Spoilt({ {name: content[:300] for name, content in self.files.items()} }, {self.target!r})"


@cache
def _cases(formats: tuple[str, ...], suffix: str) -> list[tuple[str, dict[str, bytes]]]:
    """What is imported of the small cases of formats, and their files; only whole ones with a file of that suffix."""
    found = []
    for case in reader_cases():
        if case.folder.parent.name in formats and "refused" not in case.settings:
            files = _files(case)
            if any(name.endswith(suffix) for name in files) and sum(map(len, files.values())) < _LARGEST:
                found.append((str(case.profile.relative_to(case.folder / "profile")), files))
    return found


def _files(case: ReaderCase) -> dict[str, bytes]:
    folder = case.folder / "profile"
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def of_cases(*formats: str, suffix: str = "") -> Callable[[], st.SearchStrategy[Spoilt]]:
    """The files of a case, each spoilt in the way of its kind."""

    @st.composite
    def profile(draw: Draw) -> Spoilt:
        target, files = draw(st.sampled_from(_cases(formats, suffix)))
        return Spoilt({name: _spoilt(draw, name, content) for name, content in files.items()}, target)

    return profile


def _spoilt(draw: Draw, name: str, content: bytes) -> bytes:
    kind = Path(name).suffix
    if kind in (".db", ".sqlite") and content:
        return octets(draw, _database(draw, content), 4)
    with suppress(UnicodeDecodeError, json.JSONDecodeError, csv.Error):
        text = content.decode("utf-8-sig")
        if kind == ".csv":
            rows = [row for row in csv.reader(io.StringIO(text)) if row]
            return packed(draw, table(draw, rows)) if rows else content
        if kind == ".json":
            spoilt = json.dumps(tree(draw, json.loads(text)), ensure_ascii=draw(st.booleans()))
            return packed(draw, spoilt.encode("utf-8", "surrogatepass"))
        if kind in (".txt", ".folded", ".out", ".yaml") and text.strip():
            return packed(draw, octets(draw, lines(draw, text[:_LONGEST])))
    return octets(draw, content[:_LONGEST], 1)


_VIEWS = [
    "SELECT * FROM rocpd_string",
    "SELECT 1 AS id, 'x' AS guid, 2 AS pid",
    "SELECT printf('%.*c', 300000000, 'x') AS name, 1 AS id, 'x' AS guid",
    "SELECT d.* FROM {like} d, {like} e, {like} f, {like} g",
    "SELECT count(*) AS id, 'x' AS guid, 'y' AS name FROM " + ", ".join(f"{{like}} t{i}" for i in range(30)),
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, 'x' AS guid, x AS name FROM c",
    "SELECT *, CAST(x'ff80' AS TEXT) AS extra FROM {like}",
]
_ODD = ["text", "1_000", b"\xff\xfe\x00", 2**62, -(2**63), -1, 0, 1e308, float("inf"), None, "", "k" * 5000, "\x00"]


def _database(draw: Draw, content: bytes) -> bytes:
    """With some values, columns, tables and views changed or removed."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as con, suppress(sqlite3.Error):
        con.text_factory = lambda raw: raw.decode("utf-8", "replace")
        con.deserialize(content)
        found = con.execute("SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name")
        known = found.fetchall()
        tables, views = ([name for name, kind in known if kind == wanted] for wanted in ("table", "view"))
        for _ in range(draw(few) if tables else 0):
            name, how = draw(st.sampled_from(tables)), draw(st.integers(0, 6))
            columns = [row[1] for row in con.execute(f'PRAGMA table_info("{name}")')]
            column = draw(st.sampled_from(columns or ["id"]))
            with suppress(sqlite3.Error):
                if how <= 2:
                    odd, some = draw(st.sampled_from(_ODD)), draw(st.integers(0, 1))
                    con.execute(f'UPDATE "{name}" SET "{column}" = ? WHERE rowid % 2 = ?', (odd, some))
                elif how == 3:
                    other = draw(st.sampled_from(CELLS[:30]))
                    con.execute(f'ALTER TABLE "{name}" RENAME COLUMN "{column}" TO "{other}"')
                elif how == 4:
                    con.execute(f'DROP TABLE "{name}"')
                elif how == 5 and views:
                    view, sql = draw(st.sampled_from(views)), draw(st.sampled_from(_VIEWS))
                    con.execute(f'DROP VIEW "{view}"')
                    like = f'"{name}"'
                    con.execute(f'CREATE VIEW "{view}" AS {sql.format(like=like)}')
                else:
                    con.execute("PRAGMA writable_schema = ON")
                    odd = "replace(sql, 'INTEGER', CAST(x'ff' AS TEXT))"
                    con.execute(f"UPDATE sqlite_master SET sql = {odd} WHERE name = ?", (name,))
        return con.serialize()
    return content


@cache
def _report() -> bytes:
    return lzma.decompress((DATA / "ncu" / "small.ncu-rep.xz").read_bytes())


@st.composite
def ncu_report(draw: Draw) -> Spoilt:
    whole = _report()
    if draw(st.integers(0, 5)) == 0:  # a header of its own before anything
        whole = draw(st.sampled_from([b"NVR\x00", b"NVR", b""])) + draw(st.binary(max_size=200)) + whole[:300]
    if draw(st.booleans()):  # bytes that change in place, so that the library gets to read them
        spoilt = bytearray(whole)
        for _ in range(draw(st.integers(1, 40))):
            spoilt[draw(st.integers(4, len(spoilt) - 1))] ^= 1 << draw(st.integers(0, 7))
        return Spoilt({"report.ncu-rep": bytes(spoilt)}, "report.ncu-rep")
    return Spoilt({"report.ncu-rep": octets(draw, whole, 1)}, "report.ncu-rep")


_KERNEL: dict[str, Any] = {
    ".name": "axpy", ".vgpr_count": 32, ".agpr_count": 8, ".sgpr_count": 16, ".vgpr_spill_count": 0,
    ".group_segment_fixed_size": 1024, ".private_segment_fixed_size": 0, ".max_flat_workgroup_size": 256,
    ".wavefront_size": 64, ".args": [{".size": 8, ".offset": 0}], ".reqd_workgroup_size": [64, 1, 1],
}  # fmt: skip


@st.composite
def code_object(draw: Draw) -> Spoilt:
    how = draw(st.integers(0, 2))
    if how == 0:
        notes = {
            "amdhsa.kernels": [_KERNEL, _KERNEL],
            "amdhsa.target": "amdgcn-amd-amdhsa--gfx90a",
            "amdhsa.version": [1, 2],
        }
        spoilt = tree(draw, notes)
        with suppress(OverflowError, UnicodeEncodeError, ValueError):
            content = note(b"AMDGPU", 32, octets(draw, msgpack.packb(spoilt)))
            segment = draw(st.sampled_from([".note", None]))
            return Spoilt({"k.hsaco": octets(draw, elf(224, {".note": (7, content)}, segment, 0x3F))}, "k.hsaco")
    return Spoilt({"k.hsaco": octets(draw, (HSACO if how == 1 else BUNDLE).read_bytes(), 1)}, "k.hsaco")


READERS: dict[str, Callable[[], st.SearchStrategy[Spoilt]]] = {
    "rocprofv3 CSV": of_cases("rocprofv3", suffix=".csv"),
    "rocprofv3 JSON": of_cases("rocprofv3", suffix=".json"),
    "rocpd": of_cases("rocprofv3", suffix=".db"),
    "rocprof": of_cases("rocprof"),
    "statistics": of_cases("rocprof_stats"),
    "rocprof-compute": of_cases("rocprof_compute"),
    "ncu raw": of_cases("ncu", suffix=".csv"),
    "ncu report": ncu_report,
    "recorder": of_cases("cupti"),
    "perf": of_cases("perf"),
    "Chrome trace": of_cases("chrome", "torch"),
    "Perfetto": of_cases("perfetto"),
    "XPlane": of_cases("xplane"),
    "Nsight Systems": of_cases("nsys"),
    "other traces": of_cases("ingero", "rocprof_sys_causal", "wprof"),
    "host texts": of_cases("perf-script", "collapsed"),
    "host documents": of_cases("py-spy", "speedscope"),
    "host binaries": of_cases("austin", "perfetto"),
    "code object": code_object,
}
