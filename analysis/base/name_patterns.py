"""Regular expressions that a caller gives for names, in time that grows with the text alone, whatever they are."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .database import connect
from .problems import BadArgument, LimitExceeded
from .text import count_text

PATTERN_LENGTH = 1000
"""Characters of a regular expression. Whole names and ranks are not regular expressions and may be longer."""
_MOST_QUOTED = 80
_FIRST_BATCH = 20_000
"""Characters of names that are searched at first; then more at once, as long as that is quick."""
_QUICK_S, _MOST_S = 0.05, 3.0


def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """Those of ``names`` in which ``pattern`` is found anywhere, in their order.

    The syntax is RE2's: without what would need backtracking, which a short pattern can make last for ever.
    BadArgument says what is wrong with a pattern, LimitExceeded that it takes too long.
    """
    if len(pattern) > PATTERN_LENGTH:
        raise BadArgument(
            f"The kernel pattern {_quote(pattern)} is too long",
            f"it has {count_text(len(pattern), 'character')}, and a regular expression may have {PATTERN_LENGTH}",
            "Give a part of the name, the whole name as it is, or a rank such as #1",
        )
    _search(pattern, [""])  # tells of mistakes, also where there are no names
    matches: list[str] = []
    start, batch, begun = 0, _FIRST_BATCH, time.monotonic()
    while start < len(names):
        end, size = start + 1, len(names[start])
        while end < len(names) and (size := size + len(names[end])) <= batch:
            end += 1
        at = time.monotonic()
        matches += _search(pattern, names[start:end])
        start, now = end, time.monotonic()
        batch *= 2 if now - at < _QUICK_S else 1
        if now - begun > _MOST_S and start < len(names):
            raise LimitExceeded(
                f"The kernel pattern {_quote(pattern)} takes too long",
                f"only {start} of {len(names)} names were searched in {_MOST_S:g} s",
                "Write fewer repetitions and alternatives, or use a rank such as #1",
            )
    return matches


def _search(pattern: str, names: Sequence[str]) -> list[str]:
    import duckdb

    with connect() as con:
        try:
            rows = con.execute(
                "SELECT i FROM (SELECT unnest($1) AS name, generate_subscripts($1, 1) AS i) "
                "WHERE regexp_matches(name, $2) ORDER BY i",
                [list(names), pattern],
            ).fetchall()
        except (duckdb.InvalidInputException, UnicodeEncodeError) as error:
            raise BadArgument(
                f"The kernel pattern {_quote(pattern)} is no regular expression",
                str(error).partition(": ")[2] or str(error),
                "Escape special characters, or use a rank such as #1; lookahead, lookbehind, back references and "
                "possessive repeats are not supported (the syntax is RE2's)",
            ) from error
    return [names[i - 1] for (i,) in rows]


def _quote(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _MOST_QUOTED else pattern[:_MOST_QUOTED] + "...")
