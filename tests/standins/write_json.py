"""JSON of rocprofv3: one record per counter and instance, kernels by id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import devices
from .launches import Launch, block_of, event_of, split
from .result import Counted, Process

_CPU, _GPU = 54240, 54241
_KEYS = {"Max_Engine_Clk_Ccompute": "max_engine_clk_ccompute", "Max_Engine_Clk_Fcompute": "max_engine_clk_fcompute"}


_METHODS = ("host_trap", "stochastic")
_TEXTS = {"pc_sample_instructions": ["s_waitcnt vmcnt(0)"], "pc_sample_comments": ["/src/app.cpp:12"]}
SAMPLES = 3
"""Of every launch, all at one instruction."""


def write(base: Path, process: Process) -> Path:
    """``base``_results.json of one process."""
    path = base.with_name(f"{base.name}_results.json")
    content = {"rocprofiler-sdk-tool": [_process(process)]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _process(process: Process) -> dict[str, Any]:
    handles = {name: {"handle": 1000 + i} for i, name in enumerate(process.counters)}
    return {
        "metadata": {
            "node": {"id": 0, "hash": 0, "machine_id": "0" * 32, "system_name": "Linux", "hostname": process.host},
            "pid": process.pid, "init_time": process.init, "fini_time": process.fini, "command": process.command,
        },
        "agents": [
            {**_agent(devices.cpu(), _CPU, 0), "mem_banks": []},
            {**_agent(devices.gpu(process.target), _GPU, 1), "mem_banks": devices.banks(process.target)},
        ],
        "counters": [
            {"agent_id": {"handle": _GPU}, "id": handle, "name": name, "description": "", "expression": "",
             "block": block_of(event_of(name)), "is_constant": 0, "is_derived": 0, "dimension_ids": [0]}
            for name, handle in handles.items()
        ],
        "strings": {"callback_records": [], "buffer_records": [], 
                    "marker_api": [{"key": r.correlation, "value": r.name} for r in process.ranges],
                    "counters": {"dimension_ids": []}, **_TEXTS},
        "code_objects": [{"size": 0, "code_object_id": 0}, {"size": 88, "code_object_id": 1, "uri": "file:///app"}],
        # The first entry is an empty one, as in the real file.
        "kernel_symbols": [
            {"size": 0, "kernel_id": 0, "code_object_id": 0, "kernel_name": "", "formatted_kernel_name": 0},
            *(_symbol(s, i) for i, s in enumerate(process.symbols, 1)),
        ],
        "callback_records": {
            "counter_collection": [_counted(process, c, handles) for c in process.counted],
            "spm_counter_collection": [],
        },
        "buffer_records": {
            "kernel_dispatch": [_dispatch(process, c) for c in process.launches] if process.tracing else [],
            "hip_api": [], "hsa_api": [], "memory_copy": [],
            "marker_api": [
                {"size": 64, "kind": 32, "operation": 1, "thread_id": process.pid, "start_timestamp": r.start,
                 "end_timestamp": r.end, "correlation_id": {"internal": r.correlation, "external": 0, "ancestor": 0}}
                for r in process.ranges
            ],
            **{f"pc_sample_{method}": _sampled(process) if method == process.sampling else [] for method in _METHODS},
        },
    }  # fmt: skip


def _sampled(process: Process) -> list[dict[str, Any]]:
    stalled = {"stall_reason": "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_WAITCNT"}
    return [
        {"record": {
            "pc": {"code_object_id": 1, "code_object_offset": 8040}, "exec_mask": 2**64 - 1, "timestamp": c.start + n,
            "dispatch_id": c.number, "corr_id": {"internal": c.correlation, "external": 0},
            "wrkgrp_id": {"x": 0, "y": 0, "z": 0}, "wave_in_grp": 0,
            **({"wave_issued": 0, "snapshot": stalled} if process.sampling == "stochastic" else {}),
        }, "inst_index": 0}
        for c in process.launches
        for n in range(SAMPLES)
    ]  # fmt: skip


def _agent(row: dict[str, int | str], handle: int, node: int) -> dict[str, Any]:
    facts: dict[str, Any] = {_KEYS.get(k, k.lower()): v for k, v in row.items()}
    facts |= {"id": {"handle": handle}, "type": 1 if row["Agent_Type"] == "CPU" else 2, "node_id": node,
              "logical_node_id": node, "logical_node_type_id": 0, "size": 312}  # fmt: skip
    del facts["agent_type"]
    return facts


def _symbol(launched: Launch, number: int) -> dict[str, Any]:
    return {
        "size": 88, "kernel_id": number, "code_object_id": 1, "kernel_name": launched.mangled, "kernel_object": 4096,
        "group_segment_size": launched.static_lds, "private_segment_size": launched.scratch,
        "sgpr_count": launched.sgpr, "arch_vgpr_count": launched.vgpr, "accum_vgpr_count": launched.agpr,
        "formatted_kernel_name": launched.kernel, "demangled_kernel_name": f"{launched.kernel} [clone .kd]",
        "truncated_kernel_name": launched.kernel.split("(")[0].removeprefix("void ").split("<")[0],
    }  # fmt: skip


def _axes(sizes: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip("xyz", sizes, strict=True))


def _info(process: Process, c: Counted) -> dict[str, Any]:
    launched = c.launch
    return {
        "size": 72, "agent_id": {"handle": _GPU}, "queue_id": {"handle": launched.queue},
        "kernel_id": process.symbol_id(launched), "dispatch_id": c.number, "private_segment_size": launched.scratch,
        "group_segment_size": launched.lds, "workgroup_size": _axes(launched.workgroup),
        "grid_size": _axes(launched.grid),
    }  # fmt: skip


def _dispatch(process: Process, c: Counted) -> dict[str, Any]:
    return {
        "size": 184, "kind": 11, "operation": 2, "thread_id": process.pid, "start_timestamp": c.start,
        "end_timestamp": c.end, "correlation_id": {"internal": c.correlation, "external": 0},
        "dispatch_info": _info(process, c), "stream_id": {"handle": c.launch.stream},
    }  # fmt: skip


def _counted(process: Process, c: Counted, handles: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {
        "thread_id": process.pid,
        "dispatch_data": {
            "size": 120, "correlation_id": {"internal": c.correlation, "external": 0}, "start_timestamp": c.start,
            "end_timestamp": c.end, "dispatch_info": _info(process, c),
        },
        "records": [
            {"counter_id": handles[name], "value": share}
            for name, value in (c.values or {}).items()
            for share in split(value, 4)
        ],
        "arch_vgpr_count": c.launch.vgpr, "sgpr_count": c.launch.sgpr,
        "lds_block_size_v": -(-c.launch.static_lds // 512) * 512,
    }  # fmt: skip
