"""Launch data of ncu in the store's terms: sizes in threads, registers, shared memory, duration."""

from __future__ import annotations

from ....analysis.store import sql_name
from ..names import bounded_name

LAUNCH = {
    "ID": "dispatch_id",
    "Process ID": "pid",
    "Kernel Name": "kernel",
    "Stream": "queue_id",
    "Device": "device_id",
}
"""Column of a page -> role of the store."""
SIZES = ("Block Size", "Grid Size")
_SIZE = r"(\d+)\D+(\d+)\D+(\d+)"
_TIMES = ("sum", "avg", "max", "min")
_SHARED = "launch__shared_mem_per_block"


def own_column(role: str) -> str:
    """The column of launch data; no metric's name holds a space."""
    return f"ncu {role}"


def launch_data(headers: list[str], metrics: list[str]) -> dict[str, str]:
    """Role -> SQL over the columns of the page; what no column of its own states, a metric may."""
    have = {*metrics, *(size for size in SIZES if size in headers)}
    found = {role: sql_name(header) for header, role in LAUNCH.items() if header in headers}
    found["kernel"] = bounded_name(found["kernel"])
    found |= {role: f"TRY_CAST({found[role]} AS BIGINT)" for role in ("pid", "queue_id") if role in found}

    def add(role: str, *choices: tuple[str, ...]) -> None:
        """The first choice that has a value; a choice is its SQL and the columns that it needs."""
        terms = [sql for sql, *needs in choices if have.issuperset(needs)]
        if terms:
            found[role] = f"coalesce({', '.join(terms)})"

    block, grid = (_product(size) for size in SIZES)
    add("workgroup_size", (block, "Block Size"), ('"launch__block_size"', "launch__block_size"))
    add(
        "grid",
        (f"{block} * {grid}", "Block Size", "Grid Size"),
        ('"launch__thread_count"', "launch__thread_count"),
        ('"launch__grid_size" * "launch__block_size"', "launch__grid_size", "launch__block_size"),
    )
    add("vgpr", ('"launch__registers_per_thread"', "launch__registers_per_thread"))
    static, dynamic, driver = (f"{_SHARED}_{part}" for part in ("static", "dynamic", "driver"))
    add(
        "lds_bytes",
        (f'"{static}" + "{dynamic}"', static, dynamic),
        (f'"{_SHARED}" - "{driver}"', _SHARED, driver),
    )
    times = [f"gpu__time_duration.{roll}" for roll in _TIMES]
    add("duration", *((sql_name(t), t) for t in times))
    return found


def _product(column: str) -> str:
    """SQL of the product of a size such as ``(256, 1, 1)``; NULL where it is none."""
    parts = [f"TRY_CAST(regexp_extract({sql_name(column)}, '{_SIZE}', {n}) AS BIGINT)" for n in (1, 2, 3)]
    return " * ".join(parts)
