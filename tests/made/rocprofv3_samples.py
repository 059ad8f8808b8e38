"""Samples of the program counter described once, and written as rocprofv3 writes them: JSON and rocpd."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.tests import DATA
from rooflens.tests.made.rocpd import GUID, write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, Run, Writer, run

WAIT, FMAC = 0x1D68, 0x1D6C
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
BASE = 0x7FEE53648000


@dataclass(frozen=True)
class At:
    """Samples of one launch at one instruction."""

    dispatch: int
    offset: int
    text: str
    comment: str
    reason: str | None
    count: int
    mask: int = 2**64 - 1

    @property
    def issued(self) -> int:
        return int(self.reason == "NONE")


SAMPLES = (
    At(1, WAIT, "s_waitcnt vmcnt(0) lgkmcnt(0)", "/src/lines.hip:16", "WAITCNT", 700),
    At(2, WAIT, "s_waitcnt vmcnt(0) lgkmcnt(0)", "/src/lines.hip:16", "WAITCNT", 200),
    At(2, FMAC, "v_fmac_f32_e32 v1, s6, v4", "/src/lines.hip:16", "NONE", 60),
    At(2, 0x1D84, "v_pk_fma_f32 v[2:3], v[2:3], s[0:1], 1.0 op_sel_hi:[0,1,0]",
       "/src/lines.h:7 -> /src/lines.h:10 -> /src/lines.hip:17", "ALU_DEPENDENCY", 40),
)  # fmt: skip
LAUNCHES = run(Launch("dots", grid=(64, 1, 1)), Launch("dots", grid=(128, 1, 1)))
CODE_OBJECT = DATA / "code_objects" / "lines_gfx942.hsaco"


def as_json(file: Path, made: Run = LAUNCHES, samples: Sequence[At] = SAMPLES, uri: str = "", **other: Any) -> Path:
    """A JSON of rocprofv3 with samples; ``other`` replaces parts of the process."""
    Writer(file.parent).json(file.name, made)
    document = json.loads(file.read_text())
    (tool,) = document["rocprofiler-sdk-tool"]
    texts = sorted({(one.text, one.comment) for one in samples})
    tool["strings"] |= {"pc_sample_instructions": [t for t, _ in texts], "pc_sample_comments": [c for _, c in texts]}
    tool["code_objects"] = [{"code_object_id": 1, "uri": uri, "load_base": BASE, "load_delta": BASE}]
    tool["kernel_symbols"] = [
        {"kernel_id": 1, "code_object_id": 1, "kernel_name": "dots.kd", "formatted_kernel_name": "dots",
         "kernel_address": {"handle": BASE + 0x1D00}, "arch_vgpr_count": 8, "accum_vgpr_count": 4, "sgpr_count": 16}
    ]  # fmt: skip
    records = [
        {
            "record": {
                "pc": {"code_object_id": 1, "code_object_offset": one.offset}, "dispatch_id": one.dispatch,
                "exec_mask": one.mask, "timestamp": 1, "wave_issued": one.issued,
                "inst_type": "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_NO_INST",
                "snapshot": {"stall_reason": f"{REASON}{one.reason}"},
            },
            "inst_index": texts.index((one.text, one.comment)),
        }
        for one in samples
        for _ in range(one.count)
    ]  # fmt: skip
    tool["buffer_records"]["pc_sample_stochastic"] = records
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [tool | other]}))
    return file


_REASONS = {"NONE": 0, "ALU_DEPENDENCY": 2, "WAITCNT": 3}


def as_rocpd(file: Path, samples: Sequence[At] = SAMPLES) -> Path:
    """A database with the table of samples that rocprofv3 of 2026 adds, without instructions, as is its default."""
    write_rocpd(file, LAUNCHES)
    guid = GUID.format(1)
    suffix = guid.replace("-", "_")
    with sqlite3.connect(file) as con:
        con.execute(f"UPDATE rocpd_info_kernel_symbol_{suffix} SET kernel_name = 'dots.kd'")
        con.execute(
            f"CREATE TABLE rocpd_gpu_pc_sample_{suffix} (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, "
            "agent_id INTEGER, dispatch_id INTEGER, timestamp BIGINT, exec_mask TEXT, code_object_id INTEGER, "
            "code_object_offset INTEGER, wave_issued INTEGER, inst_type INTEGER, stall_reason INTEGER)"
        )
        con.executemany(
            f"INSERT INTO rocpd_gpu_pc_sample_{suffix} (guid, pid, dispatch_id, code_object_id, code_object_offset, "
            "wave_issued, stall_reason, exec_mask) VALUES (?, ?, ?, 1, ?, ?, ?, ?)",
            [(guid, LAUNCHES.pid, one.dispatch, one.offset, None if one.reason is None else one.issued,
              _REASONS.get(one.reason or ""), str(one.mask)) for one in samples for _ in range(one.count)],
        )  # fmt: skip
    con.close()
    return file
