"""The records of a JSON file of rocprofv3, streamed: what it states of processes, kernels, launches and counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....analysis.problems import BadInput
from ..files import open_regular
from ..names import plain_text
from .agents import Agent, agent_of
from .json_stream import ENTERED, JsonCut, elements
from .recording import Spool

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
