"""Dispatch ids given by a caller, as ranges and as an SQL condition that is as cheap for a million ids as for one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .wording import problem

MOST_RANGES = 100_000
"""The maximum number of separate id ranges in one call; adjacent ids form one range."""
_MOST_LISTED = 1_000_000
"""The maximum number of ids in ranges that are listed instead of compared."""
_MOST_COMPARED = 32
_HIGHEST = 2**63 - 1
_RANGE = re.compile(r"\s*(\d{1,30})\s*(?:-\s*(\d{1,30})\s*)?", re.ASCII)

Range = tuple[int, int]
"""The first and the last id."""


def ranges(dispatches: str | Sequence[int] | None) -> list[Range] | None:
    """Sorted, separate ranges for a list of ids or a text such as "0,2,5-9"; None for all.

    Raises BadArgument for an invalid id, LimitExceeded for more than MOST_RANGES.
    """
    if dispatches is None:
        return None
    if isinstance(dispatches, str):
        merged = _merge_ranges(sorted(set(_parse_ranges(dispatches))))
    else:
        merged = _merge_ranges((i, i) for i in sorted(set(map(int, dispatches))))
    if not merged:
        raise problem("no_dispatches")
    if merged[0][0] < 0 or merged[-1][1] > _HIGHEST:
        wrong = "an id below 0" if merged[0][0] < 0 else f"an id above {_HIGHEST}"
        raise problem("impossible_dispatches", wrong=wrong)
    if len(merged) > MOST_RANGES:
        raise problem("too_many_ranges", ranges=len(merged), most=MOST_RANGES)
    id_count = sum(high - low + 1 for low, high in _all_but_widest(merged))
    if id_count > _MOST_LISTED:
        raise problem("too_many_dispatches", ranges=len(merged), ids=id_count, most=_MOST_LISTED)
    return merged


def condition(chosen: Sequence[Range], column: str) -> str:
    """SQL that is true if ``column`` is in one of the ranges.

    The few widest ranges are compared one by one; all others are listed in a string and joined, because DuckDB needs
    many seconds and gigabytes for the same number of comparisons.
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
    """All ranges except the few widest."""
    by_width = sorted(chosen, key=lambda r: r[0] - r[1])
    return sorted(by_width[_MOST_COMPARED:])


def _parse_ranges(text: str) -> Iterable[Range]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            raise problem("bad_dispatches", text=_quote(text), part=_quote(part.strip()))
        low = int(match[1])
        high = int(match[2] or low)
        if high < low:
            raise problem("descending_dispatches", text=_quote(text), low=low, high=high)
        yield low, high


def _merge_ranges(in_order: Iterable[Range]) -> list[Range]:
    """The ranges, with overlapping and adjacent ones merged."""
    merged: list[Range] = []
    for low, high in in_order:
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
