"""Launch configurations: what tells launches of one kernel apart, how configurations are numbered and called."""

from __future__ import annotations

import re

COLUMNS = ("grid", "workgroup_size", "vgpr", "agpr", "sgpr", "lds_bytes", "scratch_bytes", "cluster")
"""Columns of dispatches that, with the kernel, make a launch configuration."""
_SIZE = (
    "CASE WHEN grid % nullif(workgroup_size, 0) = 0 THEN concat(grid // workgroup_size, ' x ', workgroup_size) "
    "ELSE concat(coalesce(grid::VARCHAR, '?'), ' / ', coalesce(workgroup_size::VARCHAR, '?')) END"
)
"""Work-groups and their size where they are known, else work-items."""
_TOLD_WHERE_DIFFERENT = {
    "vgpr": "concat(', ', vgpr, ' VGPRs')", "agpr": "concat(', ', agpr, ' AGPRs')",
    "sgpr": "concat(', ', sgpr, ' SGPRs')", "lds_bytes": "concat(', ', lds_bytes, ' B LDS')",
    "scratch_bytes": "concat(', ', scratch_bytes, ' B scratch')", "cluster": "concat(', clusters of ', cluster)",
}  # fmt: skip
"""What is told only where configurations of one size differ in it, so that versions of a program keep the names."""


def number_configurations(dispatches: str, within: str = "kernel") -> str:
    """SQL that adds to rows of dispatches ``launch`` and ``configuration``, which describes it within its kernel.

    ``launch`` numbers the configurations of each kernel from 1, longest total time first. Rows of several workloads
    are numbered ``within`` "workload, kernel".
    """
    listed = ", ".join(COLUMNS)
    own = " AND ".join(f"d.{column.strip()} = n.{column.strip()}" for column in within.split(","))
    same = " AND ".join(f"d.{column} IS NOT DISTINCT FROM n.{column}" for column in COLUMNS)
    differing = "".join(
        f", CASE WHEN min(coalesce({c}, -1)) OVER size != max(coalesce({c}, -1)) OVER size THEN {text} ELSE '' END"
        for c, text in _TOLD_WHERE_DIFFERENT.items()
    )
    same_size = f"WINDOW size AS (PARTITION BY {within}, grid, workgroup_size)"
    by_time = f"PARTITION BY {within} ORDER BY total DESC NULLS LAST, first"
    return (
        f"WITH d AS ({dispatches}), c AS (SELECT {within}, {listed}, sum(duration_ns) AS total, "
        "min(dispatch_id) AS first FROM d GROUP BY ALL), "
        f"n AS (SELECT *, CAST(row_number() OVER ({by_time}) AS INTEGER) AS launch, "
        f"concat({_SIZE}{differing}) AS configuration FROM c {same_size}) "
        f"SELECT d.*, n.launch, n.configuration FROM d JOIN n ON {own} AND {same}"
    )


def label(kernel: str = "kernel", configuration: str = "configuration") -> str:
    """SQL for what a configuration is called where it stands for a kernel of its own."""
    return f"concat({kernel}, ' [', {configuration}, ']')"


_LABEL = re.compile(r"(.+)( \[[^\[\]]{1,200}\])", re.DOTALL)


def split_label(name: str) -> tuple[str, str]:
    """A name as its kernel and its configuration in brackets, which is empty where it has none."""
    match = _LABEL.fullmatch(name)
    return (match[1], match[2]) if match else (name, "")


def kernel_of(label: str, configuration: str) -> str:
    """The kernel of a configuration that is called so."""
    return label.removesuffix(f" [{configuration}]")
