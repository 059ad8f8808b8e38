"""Traces of the PyTorch profiler as Kineto writes them, made by the tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

PROPERTIES = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def complete(cat: str | None, name: Any, start_us: float, length_us: float, **more: Any) -> dict[str, Any]:
    """An event with a start and a duration; ``args`` and ids may be given."""
    event = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7, "ts": start_us, "dur": length_us, **more}
    return {key: value for key, value in event.items() if value is not None}


def step(number: int, at_us: float) -> list[dict[str, Any]]:
    """One step of a training program: a range, an operator, a launch, its kernel, a copy and a wait."""
    first = 10 * number
    device = {"device": 0, "stream": 7}
    kernel = {**device, "correlation": first, "grid": [4, 2, 1], "block": [128, 1, 1], "registers per thread": 32}
    copy = {**device, "correlation": first + 1, "bytes": 4096}
    return [
        complete("user_annotation", "step", at_us, 100.0),
        complete("cpu_op", "aten::mm", at_us + 5, 20.5),
        complete("cuda_runtime", "cudaLaunchKernel", at_us + 10, 5.0, args={"correlation": first}),
        complete("kernel", "_Z4gemmPf", at_us + 30, 40.25, pid=0, tid=7, args=kernel),
        complete("cuda_runtime", "cudaMemcpyAsync", at_us + 40, 2.0, args={"correlation": first + 1}),
        complete("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at_us + 71, 8.0, pid=0, tid=7, args=copy),
        complete("cuda_runtime", "cudaStreamSynchronize", at_us + 80, 10.0, args={"correlation": first + 2}),
        {"ph": "s", "id": first, "pid": 7, "tid": 7, "ts": at_us + 10, "cat": "ac2g", "name": "ac2g"},
    ]


def trace(events: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The whole of a trace."""
    return {"schemaVersion": 1, "deviceProperties": [PROPERTIES], **more, "traceEvents": events}


def write(path: Path, content: Any) -> Path:
    """The file, packed where its name says so."""
    text = json.dumps(content).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
