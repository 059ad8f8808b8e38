"""Read rocprofv3's JSON as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.problems import BadInput
from ....analysis.store import write_table
from ..tables.contract import parquet
from ..tables.files import open_regular
from ..tables.names import bounded_name, plain_text
from .agents import Agent, agent_of
from .outputs import Output, rank_of
from .recording import LAUNCH, Recording, Spool, counter_list, describe

if TYPE_CHECKING:
    import duckdb


_BLOCK = 1 << 20
_VALUE_LIMIT = 64 << 20
_SPACE = " \t\n\r"
ENTERED = "{"

KeyPath = tuple[str, ...]
"""Names of the objects' members on the way to a value."""


class JsonCut(ValueError):
    """The text ends within a value, or is no JSON."""


def elements(file: BufferedIOBase, opened: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
    """Paths and values of a JSON text, in its order.

    Objects whose path ``opened`` accepts are entered, all arrays in them too; what is not entered is one value.
    An element of an array has the array's path; that an object was entered is told as ``path + (ENTERED,)``.
    Raises JsonCut.
    """
    yield from _Reader(file).value((), opened)


class _Reader:
    """A window on the text, which moves on as values are taken."""

    def __init__(self, file: BufferedIOBase) -> None:
        import codecs

        self.file, self.text, self.at = file, "", 0
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self.parse = json.JSONDecoder().raw_decode

    def value(self, path: KeyPath, opened: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
        """The value that begins here, whole or by its parts."""
        first = self.peek()
        if first == "[":
            yield from self._inside("]", path, opened)
        elif first == "{" and opened(path):
            yield (*path, ENTERED), None
            yield from self._inside("}", path, opened)
        else:
            yield path, self.take()

    def _inside(self, end: str, path: KeyPath, opened: Callable[[KeyPath], bool]) -> Iterator[tuple[KeyPath, Any]]:
        self.at += 1
        while (found := self.peek()) != end:
            if found == ",":
                self.at += 1
            elif end == "]":
                # An object in an array is an element, entered only where its path is opened.
                yield from self.value(path, opened) if found == "{" else [(path, self.take())]
            else:
                key = self.take()
                if not isinstance(key, str) or self.peek() != ":":
                    raise JsonCut("an object has no names")
                self.at += 1
                yield from self.value((*path, key), opened)
        self.at += 1

    def peek(self) -> str:
        """The next character that is no space."""
        while True:
            while self.at < len(self.text):
                if (found := self.text[self.at]) not in _SPACE:
                    return found
                self.at += 1
            if not self._more():
                raise JsonCut("the text ends early")

    def take(self) -> Any:
        """The whole value that begins here."""
        self.peek()
        while True:
            try:
                found, end = self.parse(self.text, self.at)
            except (ValueError, RecursionError) as error:  # also a number of thousands of digits
                if isinstance(error, RecursionError) or len(self.text) - self.at > _VALUE_LIMIT or not self._more():
                    raise JsonCut("the text is cut or no JSON") from error
                continue
            if end == len(self.text) and self._more():  # a number may go on
                continue
            self.at = end
            return found

    def _more(self) -> bool:
        block = self.file.read(max(_BLOCK, len(self.text) - self.at))
        self.text, self.at = self.text[self.at :] + self.decode(block, not block), 0
        return bool(block)


_TOOL = "rocprofiler-sdk-tool"
_TRACE, _COUNTED = ("buffer_records", "kernel_dispatch"), ("callback_records", "counter_collection")
_LAUNCH = [
    (c, "BIGINT")
    for c in ("run", "origin", "dispatch_id", "agent", "symbol", "queue_id", "grid", "workgroup_size", "lds_bytes",
              "scratch_bytes", "start_ns", "end_ns", "vgpr", "sgpr")
]  # fmt: skip
_VALUE = [("run", "BIGINT"), ("dispatch_id", "BIGINT"), ("agent", "BIGINT"), ("handle", "BIGINT"), ("value", "DOUBLE")]
_SYMBOL = [("run", "BIGINT"), ("symbol", "BIGINT"), ("kernel", "VARCHAR"), ("agpr", "BIGINT"), ("vgpr", "BIGINT"),
           ("sgpr", "BIGINT")]  # fmt: skip
_COUNTER = [("run", "BIGINT"), ("handle", "BIGINT"), ("counter", "VARCHAR")]
COLUMNS = {"launch": _LAUNCH, "value": _VALUE, "symbol": _SYMBOL, "counter": _COUNTER}
"""What is spooled of a file: name -> columns and their SQL types."""
_BATCH = 20_000
UNKNOWN_AGENT = -1
"""Of a launch whose agent the file does not describe; others go by their node in the machine's topology."""
_LARGEST = 2**63 - 1


@dataclass
class JsonRun:
    """What the file states of one process."""

    pid: int | None = None
    host: str | None = None
    command: str | None = None
    span: tuple[int, int] | None = None
    agents: list[Agent] = field(default_factory=list)


def collect(file: Path, spools: Mapping[str, Spool]) -> list[JsonRun]:
    """Spool the file's records; returns its processes. Handles, which may be addresses, become small numbers."""
    runs: list[JsonRun] = []
    nodes: dict[tuple[int, Any], int] = {}
    handles: dict[Any, int] = {}
    held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in spools}

    def keep(name: str, row: tuple[Any, ...]) -> None:
        held[name].append(row)
        if len(held[name]) >= _BATCH:
            spools[name].add(held[name])
            held[name] = []

    def opened(path: tuple[str, ...]) -> bool:
        return path in ((), (_TOOL,)) or (len(path) == 2 and path[1] in (_TRACE[0], _COUNTED[0]))

    with open_regular(file) as handle:
        try:
            for path, value in elements(handle, opened):
                if path == (_TOOL, ENTERED):
                    runs.append(JsonRun())
                if len(path) < 2 or path[0] != _TOOL or not isinstance(value, Mapping):
                    continue
                number, run = len(runs) - 1, runs[-1]
                if path[1:] == ("metadata",):
                    _describe(run, value)
                elif path[1:] == ("agents",):
                    nodes[number, _handle(value.get("id"))] = _whole(value.get("node_id")) or 0
                    if agent := agent_of(value):
                        run.agents.append(agent)
                elif path[1:] == ("kernel_symbols",):
                    name = value.get("formatted_kernel_name") or value.get("kernel_name")
                    registers = (_whole(value.get(f"{k}_count")) for k in ("accum_vgpr", "arch_vgpr", "sgpr"))
                    keep("symbol", (number, _whole(value.get("kernel_id")), str(name or ""), *registers))
                elif path[1:] == ("counters",):
                    key = handles.setdefault(_handle(value.get("id")), len(handles))
                    keep("counter", (number, key, str(value.get("name") or "")))
                elif path[1:] in (_TRACE, _COUNTED):
                    counted = path[1:] == _COUNTED
                    data = _part(value, "dispatch_data") if counted else value
                    info = _part(data, "dispatch_info")
                    identity = (
                        _whole(info.get("dispatch_id")),
                        nodes.get((number, _handle(info.get("agent_id"))), UNKNOWN_AGENT),
                    )
                    keep("launch", (number, int(counted), *identity, *_launch(value, data, info)))
                    for record in value.get("records") or () if counted else ():
                        key = handles.setdefault(_handle(record.get("counter_id")), len(handles))
                        keep("value", (number, *identity, key, _number(record.get("value"))))
        except (JsonCut, AttributeError, TypeError) as error:
            what = str(error) if isinstance(error, JsonCut) else "its records have another shape"
            raise BadInput(f"{file.name} is damaged", what, "Copy it again, or profile again") from error
    if not runs:
        raise BadInput(f"{file.name} is no output of rocprofv3", f"it has no object {_TOOL}")
    for name, rows in held.items():
        spools[name].add(rows)
    return runs


def _describe(run: JsonRun, metadata: Mapping[str, Any]) -> None:
    run.pid = _whole(metadata.get("pid"))
    run.host = plain_text(str(_part(metadata, "node").get("hostname") or ""), 80) or None
    command = metadata.get("command")
    words = [str(w) for w in command] if isinstance(command, list) else [str(command or "")]
    run.command = plain_text(" ".join(words), 500) or None
    start, end = _whole(metadata.get("init_time")), _whole(metadata.get("fini_time"))
    run.span = (start, end) if start and end and start < end else None


def _launch(value: Mapping[str, Any], data: Mapping[str, Any], info: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Kernel, queue, sizes, times and registers of one record."""
    return (
        _whole(info.get("kernel_id")),
        _whole(_handle(info.get("queue_id"))),
        _product(info.get("grid_size")),
        _product(info.get("workgroup_size")),
        _whole(info.get("group_segment_size")),
        _whole(info.get("private_segment_size")),
        _whole(data.get("start_timestamp")),
        _whole(data.get("end_timestamp")),
        _whole(value.get("arch_vgpr_count")),
        _whole(value.get("sgpr_count")),
    )


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _handle(value: Any) -> Any:
    return value.get("handle") if isinstance(value, Mapping) else value


def _product(size: Any) -> int | None:
    sides = [_whole(size.get(axis)) for axis in "xyz"] if isinstance(size, Mapping) else [None]
    if any(s is None for s in sides):
        return None
    product = 1
    for side in sides:
        product *= side or 0
    return product if product <= _LARGEST else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def read_json(con: duckdb.DuckDBPyConnection, file: Path, output: Output, work: Path) -> list[Recording]:
    """The recordings in one JSON file, one for every process; BadInput where it is cut or another JSON."""
    spools = {name: Spool(con, work.with_name(f"{work.name}_{name}"), columns) for name, columns in COLUMNS.items()}
    runs = collect(file, spools)
    launch, value, symbol, counter = (parquet(spool.close()) for spool in spools.values())
    typed = ", ".join(f"TRY_CAST({c} AS {kind}) AS {c}" for c, kind in LAUNCH.items() if c not in ("key", "kernel"))
    device = _numbers(runs)
    con.execute(
        "CREATE OR REPLACE TABLE found AS SELECT row_number() OVER (ORDER BY run, dispatch_id) - 1 AS key, run, "
        f"{bounded_name('kernel')} AS kernel, agent, {typed} FROM (SELECT l.* EXCLUDE (vgpr, sgpr), kernel, agpr, "
        f"coalesce(l.vgpr, s.vgpr) AS vgpr, coalesce(l.sgpr, s.sgpr) AS sgpr, {device} AS device, {_pids(runs)} AS pid "
        f"FROM (FROM {launch} QUALIFY row_number() OVER (PARTITION BY run, dispatch_id, agent ORDER BY origin) = 1) l "
        f"LEFT JOIN (SELECT DISTINCT ON (run, symbol) * FROM {symbol}) s USING (run, symbol))"
    )
    launches, values = (work.with_name(f"{work.name}_{n}.parquet") for n in ("launches", "values"))
    write_table(con, f"SELECT {', '.join(LAUNCH)} FROM found ORDER BY key", launches)
    write_table(
        con,
        f"SELECT key, counter, value FROM {value} JOIN (SELECT DISTINCT ON (run, handle) * FROM {counter}) "
        "USING (run, handle) JOIN found USING (run, dispatch_id, agent) WHERE isfinite(value)",
        values,
    )
    keys = {
        run: (low, high, n)
        for run, low, high, n in con.execute(
            "SELECT run, min(key), max(key), count(*) FROM found GROUP BY run"
        ).fetchall()
    }
    con.execute("DROP TABLE found")
    found = []
    for number, run in enumerate(runs):
        low, high, rows = keys.get(number, (0, -1, 0))
        item = Recording(
            file, "json", output.label, output.above, launches, (low, high), rows, [values], host=run.host, pid=run.pid,
            command=run.command, span=run.span, agents=run.agents,
        )  # fmt: skip
        item.rank = rank_of(output, run.host, run.pid)
        item.counters = counter_list(con, [values], item.keys)
        found.append(describe(con, item))
    return found


def _numbers(runs: list[JsonRun]) -> str:
    """SQL for the number of an agent among those of its process; ``agent`` is its node in the machine's topology."""
    cases = [
        f"WHEN run = {r} AND agent = {a.numbers[1]} THEN {a.numbers[0]}"
        for r, run in enumerate(runs)
        for a in run.agents
        if a.numbers[0] is not None and a.numbers[1] is not None
    ]
    return (
        f"CASE {' '.join(cases)} ELSE nullif(agent, {UNKNOWN_AGENT}) END"
        if cases
        else f"nullif(agent, {UNKNOWN_AGENT})"
    )


def _pids(runs: list[JsonRun]) -> str:
    cases = [f"WHEN {r} THEN {run.pid}" for r, run in enumerate(runs) if run.pid is not None]
    return f"CASE run {' '.join(cases)} END" if cases else "NULL"
