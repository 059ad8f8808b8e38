"""Exports of Nsight Systems in the layout that NVIDIA documents, made by the tests: no recorded one is at hand.

Columns are those of 2023 to 2026; tables of what is not traced by default are in ``FURTHER``.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

PID, THREAD = 4242, 4243
_GLOBAL = 1 << 48
TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    "TARGET_INFO_GPU": "id INT, name TEXT, busLocation TEXT, totalMemory INT, smCount INT, computeMajor INT, "
    "computeMinor INT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INT, devStateName TEXT, name TEXT, nameEnum INT, value TEXT",
    "ENUM_CUDA_MEM_KIND": "id INTEGER PRIMARY KEY, name TEXT, label TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INT NOT NULL, end INT NOT NULL, deviceId INT, contextId INT, streamId INT, "
    "correlationId INT, globalPid INT, demangledName INT, shortName INT, mangledName INT, registersPerThread INT, "
    "gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT, staticSharedMemory INT, "
    "dynamicSharedMemory INT, localMemoryPerThread INT, graphNodeId INT",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "globalPid INT, bytes INT, copyKind INT, srcKind INT, dstKind INT",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "globalPid INT, value INT, bytes INT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT, "
    "returnValue INT",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INT, end INT, deviceId INT, contextId INT, streamId INT, "
    "correlationId INT, globalPid INT, syncType INT, eventId INT",
    "NVTX_EVENTS": "start INT NOT NULL, end INT, eventType INT, rangeId INT, text TEXT, globalTid INT, "
    "endGlobalTid INT, textId INT, domainId INT",
}
STRINGS = ["void gemm<float>(float *)", "gemm", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cuMemAlloc_v2",
           "cudaStreamSynchronize_v3020", "backward"]  # fmt: skip


FURTHER = {
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INT, end INT, deviceId INT, contextId INT, greenContextId INT, "
    "streamId INT, correlationId INT, globalPid INT, graphId INT, graphExecId INT",
    "PROFILER_OVERHEAD": "start INT, end INT, globalTid INT, correlationId INT, nameId INT, returnValue INT",
    "MPI_COLLECTIVES_EVENTS": "start INT, end INT, globalTid INT, textId INT, commHandle INT, rootRank INT, size INT, "
    "recvSize INT",
    "CUDNN_EVENTS": "start INT, end INT, eventClass INT, globalTid INT, nameId INT",
}


def further(path: Path, machine: int = 1) -> Path:
    """An export whose graph is traced as a whole, with an MPI call and work of the profiler, on a machine by number."""
    signed = (machine << 48) - (1 << 64 if machine >= 1 << 15 else 0)
    process, thread = signed | PID << 24, signed | PID << 24 | THREAD
    rows: dict[str, list[tuple[object, ...]]] = {
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [(6000, 9000, 0, 1, None, 7, 21, process, 3, 4)],
        "PROFILER_OVERHEAD": [(5200, 5300, thread, 0, 21, 0)],
        "MPI_COLLECTIVES_EVENTS": [(5400, 5800, thread, 22, 0, 0, 8, 8)],
        "CUDNN_EVENTS": [],
    }
    with sqlite3.connect(export(path)) as con:
        con.executemany(
            "INSERT INTO StringIds VALUES (?, ?)",
            [(20, "cudaGraphLaunch_v10000"), (21, "Buffer flush"), (22, "MPI_Allreduce")],
        )
        con.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5850, 5900, 0, ?, 21, 20, 0)", (thread,))
        for name, columns in FURTHER.items():
            con.execute(f"CREATE TABLE {name} ({columns})")
            con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns.split(',')))})", rows[name])
    con.close()
    return path


def export(path: Path, drop: tuple[str, ...] = ()) -> Path:
    """One step of a program with every kind of row; without the tables ``drop``."""
    process, thread = _GLOBAL | PID << 24, _GLOBAL | PID << 24 | THREAD
    rows: dict[str, list[tuple[object, ...]]] = {
        "StringIds": list(enumerate(STRINGS, 1)),
        "TARGET_INFO_GPU": [(0, "NVIDIA H200", "0000:01", 150109880320, 132, 9, 0)],
        "TARGET_INFO_SYSTEM_ENV": [(0, "x", "Hostname", 1, "node01")],
        "ENUM_CUDA_MEM_KIND": [(0, "PAGEABLE", "Pageable"), (1, "PINNED", "Pinned"), (2, "DEVICE", "Device")],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            (3000, 4500, 0, 1, 7, 11, process, 1, 2, 2, 40, 4, 2, 1, 128, 1, 1, 512, 1024, 0, None),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [(4600, 4900, 0, 1, 13, 12, process, 4096, 1, 0, 2)],
        "CUPTI_ACTIVITY_KIND_MEMSET": [(5000, 5010, 0, 1, 7, 99, process, 0, 64)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            (1000, 1500, 0, thread, 10, 5, 0), (2000, 2100, 0, thread, 11, 3, 0), (2200, 2300, 0, thread, 12, 4, 0),
            (2400, 5100, 0, thread, 13, 6, 0),
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [(2450, 5050, 0, 1, 7, 13, process, 3, 0)],
        "NVTX_EVENTS": [
            (500, 6000, 59, None, "step", thread, None, None, 0), (1900, 2250, 59, None, None, thread, None, 7, 0),
            (100, 100, 34, None, "a mark", thread, None, None, 0),
        ],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as con:
        for name, columns in TABLES.items():
            if name not in drop:
                con.execute(f"CREATE TABLE {name} ({columns})")
                marks = ", ".join("?" * len(columns.split(",")))
                con.executemany(f"INSERT INTO {name} VALUES ({marks})", rows[name])
    con.close()
    return path


STACKS = {
    "COMPOSITE_EVENTS": "id INT NOT NULL PRIMARY KEY, start INT NOT NULL, cpu INT, threadState INT, "
    "globalTid INT NOT NULL, cpuCycles INT NOT NULL",
    "SAMPLING_CALLCHAINS": "id INT NOT NULL, symbol INT NOT NULL, module INT NOT NULL, kernelMode INT, unresolved INT, "
    "specialEntry INT, originalIP INT, unwindMethod INT, stackDepth INT NOT NULL",
    "CUDA_CALLCHAINS": "id INT NOT NULL, symbol INT NOT NULL, module INT NOT NULL, unresolved INT, originalIP INT, "
    "stackDepth INT NOT NULL",
    "OSRT_API": "start INT NOT NULL, end INT NOT NULL, eventClass INT, globalTid INT, correlationId INT, nameId INT, "
    "returnValue INT, nestingLevel INT, callchainId INT",
    "OSRT_CALLCHAINS": "id INT NOT NULL, symbol INT, module INT, kernelMode INT, unresolved INT, originalIP INT, "
    "unwindMethod INT, stackDepth INT NOT NULL",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INT, utcTime TEXT, localTime TEXT",
}
_SYMBOLS = ["main", "step", "poll", "[Broken backtraces]", "forward (/app/train.py:12)", "/app/program",
            "/usr/lib/libc.so.6", "pthread_cond_wait", "0x7f00"]  # fmt: skip
BEGAN = 1_700_000_000_000_000_000


def stacks(path: Path, drop: tuple[str, ...] = ()) -> Path:
    """An export with stacks: two calls of CUDA, three samples 1 us apart, and three waits, one inside another."""
    thread = _GLOBAL | PID << 24 | THREAD
    main, step, poll, broken, forward, program, libc, wait, unresolved = range(30, 39)
    frames = {
        "SAMPLING_CALLCHAINS": [
            (chain, symbol, module, None, None, None, 0, 1, depth)
            for chain, frames in ((1, [step, main]), (2, [step, main]), (3, [broken, unresolved, main]))
            for depth, (symbol, module) in enumerate((frame, program) for frame in frames)
        ],
        "CUDA_CALLCHAINS": [(5, forward, program, None, 0, 0), (5, main, program, None, 0, 1)],
        "OSRT_CALLCHAINS": [(7, poll, libc, 0, None, 0, 1, 0), (7, main, program, 0, None, 0, 1, 1)],
    }
    rows: dict[str, list[tuple[object, ...]]] = frames | {
        "COMPOSITE_EVENTS": [(n, 10_000 + 1_000 * n, 0, 1, thread, 5) for n in (1, 2, 3)],
        "OSRT_API": [
            (20_000, 30_000, 27, thread, 0, poll, 0, 0, 7), (21_000, 22_000, 27, thread, 0, wait, 0, 1, None),
            (40_000, 50_000, 27, thread, 0, wait, 0, 0, None),
        ],
        "TARGET_INFO_SESSION_START_TIME": [(BEGAN, "x", "x")],
    }  # fmt: skip
    with sqlite3.connect(export(path, drop)) as con:
        con.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(_SYMBOLS, 30)))
        for name, columns in STACKS.items():
            if name not in drop:
                con.execute(f"CREATE TABLE {name} ({columns})")
                con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns.split(',')))})", rows[name])
        if "CUPTI_ACTIVITY_KIND_RUNTIME" not in drop:
            con.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN callchainId INT")
            con.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 5 WHERE correlationId = 11")
    con.close()
    return path
