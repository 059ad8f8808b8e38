"""Stacks of the host in an export of Nsight Systems: of calls of CUDA, of samples of the CPU, and of waits.

A call chain has a row per frame, the innermost one with depth 0. The calls of the C library that Nsight Systems traces
are those in which threads wait; their chains may end before that call, which is then the innermost frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ....analysis.base.database import sql_literal
from ....analysis.base.text import visible_sql
from ..host.recording import SAMPLES, HostRecording, spans
from ..merging.contract import one_row, write_relation

if TYPE_CHECKING:
    import duckdb

CHAINS = {"sample": "sample_chain", "call": "call_chain", "wait": "wait_chain"}
"""What has a call chain -> its table in layout.toml."""
OF_STACKS = {*CHAINS.values(), "sample", "os_call"}
"""Tables with nothing but stacks."""
_PYTHON = r"(.+) \(([^()]+\.py):(\d{1,9})\)"
"""A symbol that is a frame of Python, with its file and line."""
_NO_FRAME = r"|\[.*\]"
"""Symbols of chains that were cut or could not be walked, such as ``[Broken backtraces]``."""
_NEAR_NS = 10_000_000
"""A wait without a chain has the stack of the last sample of its thread, unless that is longer ago."""
_LATEST_NS = 1 << 61
_TEXT = 1000
_PLACE = ("symbol", "module", "file", "line")
_SAME_PLACE = " AND ".join(f"f.{column} IS NOT DISTINCT FROM c.{column}" for column in _PLACE)


class HostStacks:
    """The stacks of an export; ``staged`` are its tables as FROM items, and ``names`` that of its texts by id."""

    def __init__(self, con: duckdb.DuckDBPyConnection, work: Path, staged: Mapping[str, str], names: str) -> None:
        self._con, self._work, self._staged = con, work, staged
        self._frames = self._write("frames", self._frames_sql(names))
        chains = (
            "SELECT what, chain, list(frame ORDER BY depth DESC) AS frames, list(c.symbol) AS symbols "
            f"FROM ({self._chains()}) c JOIN {self._frames} f ON {_SAME_PLACE} GROUP BY what, chain"
        )
        self._stacks = self._write("chains", chains)
        empty = "SELECT NULL::BIGINT AS start_ns, NULL::BIGINT AS pid, NULL::BIGINT AS thread, NULL::BIGINT[] AS frames"
        self._sampled = self._write("sampled", self._sampled_sql() if "sample" in staged else f"{empty} LIMIT 0")
        self._waits = self._write("waits", self._waits_sql() if "os_call" in staged else f"{empty} LIMIT 0")
        used = " UNION ".join(f"SELECT frames FROM {one}" for one in (self._stacks, self._waits))
        numbered = f"SELECT row_number() OVER (ORDER BY frames) AS stack, frames FROM ({used}) WHERE len(frames) > 0"
        self._numbers = self._write("numbers", numbered)
        self.calls = (
            f"(SELECT chain, stack FROM {self._stacks} JOIN {self._numbers} USING (frames) WHERE what = 'call')"
        )
        """FROM item with the stack of each chain of a call."""

    def recording(self) -> HostRecording | None:
        """Return the stacks; None if there are none."""
        (count,) = one_row(self._con, f"SELECT count(*) FROM {self._numbers}")
        if not count:
            return None
        frames = (
            "SELECT stack, depth::INTEGER AS depth, function, file_name AS file, line_number AS line, library AS "
            "module FROM (SELECT stack, unnest(frames) AS frame, generate_subscripts(frames, 1) - 1 AS depth "
            f"FROM {self._numbers}) JOIN {self._frames} USING (frame)"
        )
        points = (
            f"(SELECT start_ns AS time_ns, pid, thread, coalesce(stack, 0) AS stack FROM {self._sampled} "
            f"LEFT JOIN {self._numbers} USING (frames))"
        )
        columns = ", ".join(SAMPLES)
        sampled = spans(self._con, points, self._work / "nsys")
        waits = (
            "SELECT start_ns, end_ns, end_ns - start_ns AS time_ns, NULL::BIGINT AS samples, pid, thread, stack, "
            f"NULL::BIGINT AS waker FROM {self._waits} JOIN {self._numbers} USING (frames)"
        )
        samples = f"SELECT {columns} FROM ({sampled})" + (f" UNION ALL {waits}" if "os_call" in self._staged else "")
        any_samples, any_waits, lines = one_row(
            self._con,
            f"SELECT (SELECT count(*) FROM {self._sampled}), (SELECT count(*) FROM {self._waits}), count(line) "
            f"FROM ({frames})",
        )
        limits = [*(["host_functions_only"] if not lines else []), *(["host_processor_only"] if not any_waits else [])]
        return HostRecording("nsys", frames, samples if any_samples or any_waits else "", limits=limits)

    def _write(self, name: str, select: str) -> str:
        return write_relation(self._con, select, self._work / f"nsys_stack_{name}.parquet")

    def _chains(self) -> str:
        """Return SQL for the rows of all chains."""
        parts = [
            f"SELECT {sql_literal(what)} AS what, chain, depth, {', '.join(_PLACE)} FROM {self._staged[table]}"
            for what, table in CHAINS.items()
            if table in self._staged
        ]
        nothing = ", ".join(f"NULL::BIGINT AS {column}" for column in ("chain", "depth", *_PLACE))
        return " UNION ALL ".join(parts) or f"SELECT NULL::VARCHAR AS what, {nothing} LIMIT 0"

    def _frames_sql(self, names: str) -> str:
        """Return SQL for the different frames of chains, and those of the calls in which threads wait."""
        places = f"SELECT DISTINCT {', '.join(_PLACE)} FROM ({self._chains()})"
        if "os_call" in self._staged:
            places += f" UNION SELECT DISTINCT name, NULL, NULL, NULL FROM {self._staged['os_call']}"
        python = [f"nullif(regexp_extract(s.text, {sql_literal(f'^{_PYTHON}$')}, {n}), '')" for n in (1, 2, 3)]
        file = f"coalesce(f.text, {python[1]})"
        function, shown_file = _text(f"coalesce({python[0]}, s.text)"), _text(file)
        return (
            f"SELECT row_number() OVER (ORDER BY symbol, module, p.file, p.line) AS frame, p.*, {function} AS "
            f"function, {shown_file} AS file_name, "
            f"coalesce(TRY_CAST(p.line AS INTEGER), TRY_CAST({python[2]} AS INTEGER)) AS line_number, "
            f"CASE WHEN {file} IS NULL THEN {_text('m.text')} END AS library "
            f"FROM ({places}) p JOIN {names} s ON s.id = p.symbol LEFT JOIN {names} m ON m.id = p.module "
            f"LEFT JOIN {names} f ON f.id = p.file WHERE NOT regexp_full_match(s.text, {sql_literal(_NO_FRAME)})"
        )

    def _sampled_sql(self) -> str:
        """Return SQL for the samples with their frames, of all threads that were sampled."""
        return (
            f"SELECT s.start_ns, s.pid, s.thread, c.frames FROM {self._staged['sample']} s "
            f"LEFT JOIN {self._stacks} c ON c.what = 'sample' AND c.chain = s.id "
            f"WHERE s.start_ns BETWEEN -{_LATEST_NS} AND {_LATEST_NS}"
        )

    def _waits_sql(self) -> str:
        """Return SQL for the calls in which threads wait, with their frames; calls within calls are left out."""
        return (
            "SELECT w.start_ns, w.end_ns, w.pid, w.thread, CASE WHEN list_contains(c.symbols, w.name) THEN c.frames "
            "ELSE list_append(coalesce(c.frames, CASE WHEN w.start_ns - s.start_ns <= "
            f"{_NEAR_NS} THEN s.frames END), f.frame) END AS frames "
            f"FROM (SELECT * FROM {self._staged['os_call']} WHERE coalesce(nesting, 0) = 0 AND "
            f"end_ns > start_ns AND start_ns >= -{_LATEST_NS} AND end_ns <= {_LATEST_NS}) w "
            f"JOIN {self._frames} f ON f.symbol = w.name AND f.module IS NULL AND f.file IS NULL AND f.line IS NULL "
            f"LEFT JOIN {self._stacks} c ON c.what = 'wait' AND c.chain = w.chain "
            f"ASOF LEFT JOIN {self._sampled} s ON s.pid = w.pid AND s.thread = w.thread AND w.start_ns >= s.start_ns"
        )


def _text(sql: str) -> str:
    return f"left({visible_sql(sql)}, {_TEXT})"
