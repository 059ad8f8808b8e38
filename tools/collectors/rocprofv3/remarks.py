"""What is said of a profile beside its figures: how to read it, or why nothing in it can be read."""

from __future__ import annotations

from pathlib import Path

from ....analysis.problems import BadInput
from ..merge import Merged
from .outputs import Output
from .recording import Recording

_LISTED = 8


def remarks(main: list[Recording], used: list[Recording], merged: Merged, facts: dict[str, float]) -> list[str]:
    """How to read this profile; nothing of it is a fault."""
    found = []
    if len(main) > 1:
        listed = "; ".join(f"{_process(r)}: {r.rows}" for r in main[:_LISTED])
        more = " ..." if len(main) > _LISTED else ""
        found.append(f"Launches of {len(main)} processes, kept apart by pid: {listed}{more}.")
    if any(r.lds_is_static for r in main):
        found.append(
            "lds_bytes is static LDS only, as the CSV of rocprofv3 states it; rocpd and JSON include dynamic LDS."
        )
    if merged.counters and facts.get("num_xcd", 1) > 1:
        found.append("Counters are sums over the XCDs of a dispatch, so cycles count once for every XCD.")
    if not any(r.agents for r in used):
        found.append("The files do not describe the GPU: rocprofv3 writes *_agent_info.csv beside its CSV files.")
    return found


def _process(recording: Recording) -> str:
    parts = [recording.host, None if recording.rank is None else f"rank {recording.rank}", f"pid {recording.pid}"]
    return " ".join(p for p in parts if p)


def nothing(path: Path, outputs: list[Output], warnings: list[str]) -> BadInput:
    """Why no launch was found: damaged files, or a run without kernels or without their trace."""
    damaged = [w.removesuffix(" It was left out.") for w in warnings if w.endswith("It was left out.")]
    if damaged:
        return BadInput(f"{path.name} holds nothing that can be read", " ".join(damaged[:4]))
    if not outputs:
        return BadInput(f"{path.name} is no output of rocprofv3", "no file in it is one that rocprofv3 writes")
    kinds = sorted({f.name for o in outputs for f in o.files.values()})
    return BadInput(
        f"{path.name} holds no kernel launches",
        f"found are {', '.join(kinds[:6])}{' ...' if len(kinds) > 6 else ''}: traces of API calls, or a program "
        "that launched no kernel",
        "Profile with --kernel-trace or with counters",
    )
