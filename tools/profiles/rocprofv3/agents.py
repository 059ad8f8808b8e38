"""The devices of a run as rocprofv3 describes them: agent_info.csv, JSON and rocpd have the same fields."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....analysis.base.notes import Note
from ....analysis.catalogue.targets import find_target
from ...base.profile_files import small_table
from ...base.untrusted_text import decimal, plain_text, whole
from ..merging.wording import note

FIELDS = (  # numeric fields that are used, with their names in JSON
    "simd_count", "simd_per_cu", "cu_count", "num_xcc", "num_shader_banks", "max_engine_clk_fcompute",
    "gfx_target_version", "wave_front_size", "max_waves_per_cu", "node_id", "logical_node_id", "logical_node_type_id",
)  # fmt: skip
_MOST, _MOST_AGENTS = 1e15, 10**9
_UNNAMED = {"", "unknown", "ip discovery", "n/a", "none", "(none)"}
_LDS_BANKS, _PIPES = 32, 4
_CHANNEL_BITS = 128  # if the target does not state another width
_MOST_CUS_PER_ENGINE = 16
_CUS_PER_SQC = 2


_GPU = "GPU"
"""Type of an agent in a database, needed because rocprof-sys states only type and name of an agent."""


@dataclass(frozen=True)
class Rocprofv3Agent:
    """One GPU: its numbers in the run, its target, name and numeric facts (names of analysis/catalogue/gpus)."""

    numbers: tuple[int | None, int | None]
    """Number among all agents visible to the process, which launches refer to, and number in the machine's topology."""
    arch: str | None
    device: str | None
    facts: dict[str, float]

    @property
    def model(self) -> tuple[str | None, str | None, tuple[tuple[str, float], ...]]:
        """The properties that GPUs of one kind have in common."""
        return self.arch, self.device, tuple(sorted(self.facts.items()))


UNKNOWN = Rocprofv3Agent((None, None), None, None, {})
"""Stands for a GPU that the profile does not describe."""


def read_agents(path: Path) -> list[Rocprofv3Agent]:
    """Return the GPUs of an agent_info.csv; BadInput if the file is damaged."""
    return [a for row in small_table(path) if (a := agent_of({k.casefold(): v for k, v in row.items()}))]


def agent_of(fields: Mapping[str, Any]) -> Rocprofv3Agent | None:
    """Return an agent from its fields, named as in JSON; None if it is not a GPU.

    Compute units are the number of SIMDs divided by SIMDs per unit, because some drivers count only one die in
    ``array_count``. L2 channels follow from the target and its dies (16 on each die of the MI300 and MI350 series),
    scalar caches from the compute units of a shader engine (one for two, as AMD ROCm Compute Profiler counts them),
    memory channels from the width of the memory.
    """
    number = {name: number_of(fields.get(name)) for name in FIELDS}
    arch = arch_of(fields.get("name"), number["gfx_target_version"])
    described_by_numbers = number["simd_count"] > 0
    if arch is None or not (described_by_numbers or fields.get("type") == _GPU):
        return None
    target = find_target(arch)
    simds = number["simd_per_cu"]
    units = number["simd_count"] / simds if simds else number["cu_count"]
    dies = max(1.0, number["num_xcc"])
    engines = number["num_shader_banks"]
    if engines and units / engines > _MOST_CUS_PER_ENGINE:
        engines *= dies
    banks = fields.get("mem_banks")
    memories = [bank for bank in banks if isinstance(bank, Mapping)] if isinstance(banks, list) else []
    memory = max(memories, key=lambda bank: number_of(bank.get("size_in_bytes")), default={})
    bits = target.hbm_channel_bits.value if target and target.hbm_channel_bits else _CHANNEL_BITS
    facts = {
        "cu_per_gpu": units,
        "simd_per_cu": simds,
        "se_per_gpu": engines,
        "sqc_per_gpu": math.ceil(units / engines / _CUS_PER_SQC) * engines if engines else 0.0,
        "pipes_per_gpu": float(_PIPES),
        "wave_size": number["wave_front_size"],
        "max_waves_per_cu": number["max_waves_per_cu"],
        "max_sclk": number["max_engine_clk_fcompute"],
        "num_xcd": dies,
        "total_l2_chan": target.l2_channels(dies) if target else 0.0,
        "lds_banks_per_cu": float(_LDS_BANKS),
        "max_mclk": number_of(memory.get("mem_clk_max")),
        "num_hbm_channels": number_of(memory.get("width")) // bits,
    }
    texts = (plain_text(str(fields.get(f) or ""), 80) for f in ("product_name", "model_name"))
    return Rocprofv3Agent(
        (_index(fields, "logical_node_id"), _index(fields, "node_id")),
        arch,
        next((t for t in texts if t.casefold() not in _UNNAMED), None),
        {name: float(value) for name, value in facts.items() if value > 0 and described_by_numbers},
    )


def arch_of(name: object, version: float) -> str | None:
    """Return the target: as named, else from gfx_target_version (two digits each for major, minor and step)."""
    if isinstance(name, str) and (match := re.match(r"gfx[0-9a-f]{3,5}", name)):
        return match[0]
    whole = int(version)
    major, minor, step = whole // 10000 % 100, whole // 100 % 100, whole % 100
    return f"gfx{major}{minor}{step:x}" if major else None


def find_profiled_gpu(agents: Iterable[Rocprofv3Agent], numbers: Iterable[int]) -> tuple[Rocprofv3Agent, list[Note]]:
    """Return the GPU that ran the launches on ``numbers``; UNKNOWN, with a warning, if several kinds of GPU match."""
    candidates, used = list(agents), set(numbers)
    for place in (0, 1):
        matching_agents = [a for a in candidates if a.numbers[place] in used]
        if {a.numbers[place] for a in matching_agents} == used and used:
            candidates = matching_agents
            break
    if len({a.model for a in candidates}) > 1:
        kinds = sorted({f"{a.arch} ({a.facts.get('cu_per_gpu', 0):.0f} CUs)" for a in candidates})
        return UNKNOWN, [note("agents.listed", kinds=kinds)]
    return candidates[0] if candidates else UNKNOWN, []


def _index(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, str):
        return whole(value, 9)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_AGENTS else None


def number_of(value: object) -> float:
    """Return a plausible positive number of a file, stated as text or as a number; 0 for anything else."""
    if isinstance(value, str):
        number = decimal(value) or 0.0
    else:
        number = float(value) if isinstance(value, int | float) and abs(value) < _MOST else 0.0
    return number if 0 < number < _MOST else 0.0
