"""Which launch of one pass is which launch of another: the same kernel, device and size, and the same turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .names import plain_text

if TYPE_CHECKING:
    import duckdb

    from .keys import Pass

_LISTED = 4


def pair(
    con: duckdb.DuckDBPyConnection,
    main: Pass,
    item: Pass,
    index: int,
    warnings: list[str],
    filtered: dict[tuple[str, int], list[str]],
) -> None:
    """Table ``pairs_<index>`` (row of the main pass, row of this one, its duration) from the tables of keys.

    What has no partner is counted in the pass and told in ``warnings``; a pass that holds all launches of some kernels
    and none of others was filtered, and is noted in ``filtered``: (its kernels, launches without) -> passes.
    """
    both_grids = main.staged.header("grid") and item.staged.header("grid")
    kernel = "process, device_id, kernel_id, grid" if both_grids else "process, device_id, kernel_id"
    turn = f"{kernel}, {'nth' if both_grids else 'ordinal'}"
    item.matched = _match(con, index, turn)
    if item.matched < main.staged.rows and _is_partial(con, index, kernel):
        by_id = _match(con, index, f"{kernel}, given_id")
        item.matched = by_id if by_id == item.staged.rows else _match(con, index, turn)
    item.unmatched = item.staged.rows - item.matched
    missing = main.staged.rows - item.matched
    if not item.unmatched and missing and (kernels := _only_kernels(con, index, missing)):
        filtered.setdefault((kernels, missing), []).append(item.staged.name)
    elif item.unmatched or missing:
        warnings.append(
            f"Pass {item.staged.name}: {item.matched} dispatches matched by device, kernel, grid and ordinal, "
            f"{item.unmatched} only in this pass (left out), {missing} of the main pass without it (NULL)."
        )


def _match(con: duckdb.DuckDBPyConnection, index: int, key: str) -> int:
    con.execute(
        f"CREATE OR REPLACE TABLE pairs_{index} AS SELECT k.row AS main_row, o.row, o.duration_ns "
        f"FROM keys_0 k JOIN keys_{index} o USING ({key})"
    )
    (found,) = con.execute(f"SELECT count(*) FROM pairs_{index}").fetchone() or (0,)
    return int(found)


def _is_partial(con: duckdb.DuckDBPyConnection, index: int, kernel: str) -> bool:
    """Whether a pass has some launches of a kernel and size, but fewer than the main pass: ordinals then mislead."""
    (fewer,) = con.execute(
        f"SELECT count(*) FROM (SELECT {kernel}, count(*) AS n FROM keys_0 GROUP BY ALL) m "
        f"JOIN (SELECT {kernel}, count(*) AS n FROM keys_{index} GROUP BY ALL) o USING ({kernel}) WHERE o.n < m.n"
    ).fetchone() or (0,)
    return bool(fewer)


def _only_kernels(con: duckdb.DuckDBPyConnection, index: int, missing: int) -> str:
    """The kernels of a pass, where all it lacks are launches of other kernels; an empty text otherwise."""
    (others,) = con.execute(
        f"SELECT count(*) FROM keys_0 WHERE kernel_id NOT IN (SELECT kernel_id FROM keys_{index})"
    ).fetchone() or (0,)
    if others != missing:
        return ""
    found = con.execute(
        f"SELECT DISTINCT kernel FROM names WHERE kernel_id IN (SELECT kernel_id FROM keys_{index}) ORDER BY kernel"
    ).fetchall()
    shown = [plain_text(kernel, 60) for (kernel,) in found[:_LISTED]]
    return ", ".join(shown) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")


def told_filter(passes: list[str], kernels: str, missing: int) -> str:
    """The note on passes that hold launches of some kernels only."""
    return (
        f"Only launches of {kernels} were counted in {', '.join(passes[:_LISTED])}"
        f"{' ...' if len(passes) > _LISTED else ''}: the {missing} launches of other kernels have times, no counters."
    )
