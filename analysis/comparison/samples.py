"""Run times of kernels as samples: one part for each launch shape, with how often it was launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..problems import BadInput
from ..store import Manifest, Store, sql_literal, sql_path

if TYPE_CHECKING:
    import duckdb

SAMPLES = 500
"""Launches of a kernel that are looked at one by one, spread evenly over all of them."""
_SHAPES = 20
Shape = tuple[int | None, int | None]


@dataclass(frozen=True)
class Part:
    """Launches of one kernel and shape: sampled run times in ns, in the order of the launches, and the launches."""

    times: tuple[float, ...]
    launches: int


@dataclass(frozen=True)
class Kernel:
    """One kernel of a workload: its launches, those with a usable time, and the sum of their run times in ns."""

    name: str
    launches: int
    timed: int
    total_ns: float


def kernels(con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest) -> list[Kernel]:
    """The kernels of a workload, longest total time first. Raises BadInput where it has no dispatches."""
    rows = con.execute(
        "SELECT kernel, count(*), count(*) FILTER (duration_ns > 0), "
        "coalesce(sum(duration_ns) FILTER (duration_ns > 0), 0)::DOUBLE AS total "
        f"FROM read_parquet({_file(store, manifest)}) GROUP BY kernel ORDER BY total DESC, min(dispatch_id)"
    ).fetchall()
    return [Kernel(str(name), int(n), int(timed), float(total)) for name, n, timed, total in rows]


def parts(
    con: duckdb.DuckDBPyConnection, store: Store, manifest: Manifest, names: Sequence[str]
) -> dict[str, dict[Shape, Part]]:
    """The timed launches of these kernels by kernel and launch shape (grid, work-group size)."""
    path = _file(store, manifest)
    held = {str(row[0]) for row in con.execute(f"DESCRIBE SELECT * FROM read_parquet({path})").fetchall()}
    shape = ", ".join(c if c in held else f"NULL::BIGINT AS {c}" for c in ("grid", "workgroup_size"))
    wanted = ", ".join(map(sql_literal, names)) or "NULL"
    timed = f"SELECT kernel, {shape}, dispatch_id, duration_ns FROM read_parquet({path}) "
    timed += f"WHERE duration_ns > 0 AND kernel IN ({wanted})"
    rows = con.execute(
        f"WITH t AS ({timed}), r AS (SELECT *, row_number() OVER k AS i, count(*) OVER (PARTITION BY kernel) AS n, "
        "count(*) OVER (PARTITION BY kernel, grid, workgroup_size) AS launches FROM t "
        "WINDOW k AS (PARTITION BY kernel ORDER BY dispatch_id)) "
        "SELECT kernel, grid, workgroup_size, launches, list(duration_ns::DOUBLE ORDER BY dispatch_id) FROM r "
        f"WHERE floor(i * least(n, {SAMPLES}) / n) > floor((i - 1) * least(n, {SAMPLES}) / n) "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found: dict[str, dict[Shape, Part]] = {}
    for kernel, grid, size, launches, times in rows:
        found.setdefault(str(kernel), {})[grid, size] = Part(tuple(times), int(launches))
    return found


def alike(one: dict[Shape, Part], other: dict[Shape, Part]) -> tuple[list[Part], list[Part]]:
    """The parts of a kernel in two workloads: by shape where both launched the same shapes equally often, else whole.

    A kernel that is launched in several sizes has one median for each, and a change of shape is part of the change.
    """
    shapes = [Counter({shape: part.launches for shape, part in parts.items()}) for parts in (one, other)]
    if shapes[0] == shapes[1] and 1 < len(one) <= _SHAPES:
        return [one[shape] for shape in one], [other[shape] for shape in one]
    return [whole(one)], [whole(other)]


def whole(parts: dict[Shape, Part]) -> Part:
    """All launches of a kernel as one part."""
    times = tuple(t for part in parts.values() for t in part.times)
    return Part(times, sum(part.launches for part in parts.values()))


def _file(store: Store, manifest: Manifest) -> str:
    path = store.file(manifest, "dispatches")
    if path is None:
        raise BadInput(
            f"Workload {manifest.name!r} has no dispatches",
            "it was imported from a profiler's kernel statistics, which hold neither single times nor counters",
            "Profile both versions and compare those",
        )
    return sql_path(path)
