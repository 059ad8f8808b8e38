"""The text that rocminfo prints: one section per agent, of which the GPUs tell target, compute units and clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .files import head
from .names import plain_text

_LIMIT = 4 << 20
_FACTS = {
    "Compute Unit": "cu_per_gpu",
    "SIMDs per CU": "simd_per_cu",
    "Shader Engines": "se_per_gpu",
    "Wavefront Size": "wave_size",
    "Max Waves Per CU": "max_waves_per_cu",
    "Max Clock Freq. (MHz)": "max_sclk",
}
_CUS_PER_XCD = {"gfx942": 38, "gfx950": 32}


@dataclass(frozen=True)
class Agent:
    """One GPU as rocminfo describes it."""

    node: int
    arch: str
    device: str | None
    facts: dict[str, float]


def read_agents(path: Path) -> list[Agent]:
    """The GPUs named in a file of rocminfo's output, in order."""
    return parse_agents(head(path, _LIMIT).decode("utf-8", errors="replace"))


def parse_agents(text: str) -> list[Agent]:
    """The GPUs in rocminfo's output, in order; colour codes and unknown lines are skipped."""
    lines = "\n".join(plain_text(line, 300) for line in text.splitlines())
    sections = re.split(r"^\*{3,}\nAgent \d+\n\*{3,}$", lines, flags=re.MULTILINE)[1:]
    return [agent for section in sections if (agent := _agent(section))]


def agent_of(agents: list[Agent], nodes: list[int]) -> Agent | None:
    """The GPU that a profile ran on: the only kind there is, else the one whose node number the profile names.

    None where GPUs of several kinds fit.
    """
    if len({(a.arch, a.facts.get("cu_per_gpu")) for a in agents}) == 1:
        return agents[0]
    named = [a for a in agents if a.node in nodes]
    return named[0] if len({a.arch for a in named}) == 1 else None


def _agent(section: str) -> Agent | None:
    fields: dict[str, str] = {}
    for line in section.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            # The first mention counts: pools, ISAs and dimensions below repeat keys such as Name.
            fields.setdefault(key.strip(), value.strip())
    arch = re.match(r"gfx[0-9a-f]+", fields.get("Name", ""))
    if fields.get("Device Type") != "GPU" or arch is None:
        return None
    numbers = {fact: _number(fields.get(key, "")) for key, fact in _FACTS.items()}
    facts = {fact: number for fact, number in numbers.items() if number > 0}
    per_xcd = _CUS_PER_XCD.get(arch[0])
    if per_xcd and facts.get("cu_per_gpu", 0) % per_xcd == 0 and "cu_per_gpu" in facts:
        facts["num_xcd"] = facts["cu_per_gpu"] / per_xcd
    return Agent(int(_number(fields.get("Node", ""))), arch[0], fields.get("Marketing Name") or None, facts)


def _number(text: str) -> float:
    digits = re.match(r"\d{1,9}", text)
    return float(digits[0]) if digits else 0.0
