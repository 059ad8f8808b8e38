"""The dispatch ids that a caller names, as ranges and as a condition in SQL: as cheap for a million ids as for one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..base.problems import BadArgument, LimitExceeded

MOST_RANGES = 100_000
"""Separate ranges of ids in one call; neighbours count as one."""
_MOST_LISTED = 1_000_000
"""Ids in those ranges that are not looked up one by one."""
_MOST_COMPARED = 32
_HIGHEST = 2**63 - 1
_RANGE = re.compile(r"\s*(\d{1,30})\s*(?:-\s*(\d{1,30})\s*)?", re.ASCII)
_EXAMPLE = 'Write ids and ranges such as "0,2,5-9", or leave it out for all'

Range = tuple[int, int]
"""First and last id."""


def ranges(dispatches: str | Sequence[int] | None) -> list[Range] | None:
    """Sorted, separate ranges for a list of ids or a text such as "0,2,5-9"; None for all.

    BadArgument for what is no id, LimitExceeded for more than MOST_RANGES.
    """
    if dispatches is None:
        return None
    if isinstance(dispatches, str):
        merged = _merge_ranges(sorted(set(_parse_ranges(dispatches))))
    else:
        merged = _merge_ranges((i, i) for i in sorted(set(map(int, dispatches))))
    if not merged:
        raise BadArgument("dispatches is empty", fix=_EXAMPLE)
    if merged[0][0] < 0 or merged[-1][1] > _HIGHEST:
        wrong = "an id below 0" if merged[0][0] < 0 else f"an id above {_HIGHEST}"
        raise BadArgument(f"dispatches names {wrong}", "there are none", _EXAMPLE)
    if len(merged) > MOST_RANGES:
        raise _too_many(f"it names {len(merged)} separate ranges", f"{MOST_RANGES} are allowed")
    id_count = sum(high - low + 1 for low, high in _all_but_widest(merged))
    if id_count > _MOST_LISTED:
        raise _too_many(f"its {len(merged)} separate ranges hold {id_count} ids", f"{_MOST_LISTED} are allowed so")
    return merged


def condition(chosen: Sequence[Range], column: str) -> str:
    """SQL that is true where ``column`` lies in one of the ranges.

    A few wide ranges are compared one by one; all others are listed in a text, which is joined: DuckDB takes many
    seconds and gigabytes for as many comparisons.
    """
    narrow = _all_but_widest(chosen)
    wide = set(chosen).difference(narrow)
    parts = [f"{column} BETWEEN {low} AND {high}" for low, high in sorted(wide)]
    if narrow:
        low, high = (
            f"unnest(string_split('{','.join(str(r[end]) for r in narrow)}', ',')::BIGINT[])" for end in (0, 1)
        )
        listed = f"SELECT unnest(generate_series(low, high)) FROM (SELECT {low} AS low, {high} AS high)"
        parts.append(f"{column} IN ({listed})")
    return f"({' OR '.join(parts)})"


def _all_but_widest(chosen: Sequence[Range]) -> list[Range]:
    """All ranges but the widest few."""
    by_width = sorted(chosen, key=lambda r: r[0] - r[1])
    return sorted(by_width[_MOST_COMPARED:])


def _parse_ranges(text: str) -> Iterable[Range]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            raise BadArgument(
                f"dispatches {_quote(text)} cannot be read",
                f"at {_quote(part.strip())}",
                'Write ids and ranges: "0,2,5-9"',
            )
        low = int(match[1])
        high = int(match[2] or low)
        if high < low:
            raise BadArgument(f"dispatches {_quote(text)} cannot be read", f"{low}-{high} runs backwards", _EXAMPLE)
        yield low, high


def _merge_ranges(in_order: Iterable[Range]) -> list[Range]:
    """Ranges without overlaps and neighbours."""
    merged: list[Range] = []
    for low, high in in_order:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _too_many(why: str, allowed: str) -> LimitExceeded:
    return LimitExceeded("dispatches names too much", f"{why}; {allowed}", "Name ranges such as 0-99999, or a kernel")


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
