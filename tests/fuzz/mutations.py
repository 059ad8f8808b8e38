"""Ways to spoil a file: cells, rows and headers of a table, values of a tree, lines of a text, bytes of anything."""

from __future__ import annotations

import copy
import csv
import gzip
import io
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

Draw = Callable[..., Any]

CELLS = [
    "", " ", "0", "-1", "-0.5", "1.5", "1e18", "1e308", "1e400", "-1e400", "9" * 400, "1_000", "0x10", "inf",
    "Infinity", "-Infinity", "NaN", "nan", "N/A", "null", "None", "TRUE", "1,000", "1,5", "2.230,5", "12 (3; 4)",
    "(1, 2, 3)", "text", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
    "4294967296", "１２",
    "\u202ekernel\u200b", "k" * 5000, "a,b", 'a"b', "a\nb", "\x1b[31mred", "KERNEL_DISPATCH", "Agent 7", "../../etc",
]  # fmt: skip
VALUES = [
    None, True, 0, -1, 1.5, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, 10**400, 1e308, float("inf"),
    float("nan"), "", "text", "1_000", "\ud800", "\x00", "k" * 5000, [], {}, [[]], [None], {"handle": []},
    {"handle": 1},
    {"x": 2**62, "y": 2**62, "z": -(2**62)},
]  # fmt: skip
few = st.integers(0, 3)


def table(draw: Draw, rows: Sequence[Sequence[object]], ragged: bool = True) -> bytes:
    """A CSV file of ``rows``, the first of which is its header, with some of it spoilt."""
    cells = [[str(cell) for cell in row] for row in rows]
    for _ in range(draw(few)):
        row, column = draw(st.integers(0, len(cells) - 1)), draw(st.integers(0, len(cells[0]) - 1))
        if column < len(cells[row]):
            cells[row][column] = draw(st.sampled_from(CELLS))
    if draw(st.integers(0, 4)) == 0:  # headers that change places, or come twice
        one, other = (draw(st.integers(0, len(cells[0]) - 1)) for _ in range(2))
        cells[0][one] = cells[0][other]
    if draw(st.integers(0, 4)) == 0:
        one, other = (draw(st.integers(0, len(cells[0]) - 1)) for _ in range(2))
        cells[0][one], cells[0][other] = cells[0][other], cells[0][one]
    if draw(st.integers(0, 4)) == 0:  # one column is odd throughout
        column, odd = draw(st.integers(0, len(cells[0]) - 1)), draw(st.sampled_from(CELLS))
        for line in cells[1:]:
            if column < len(line):
                line[column] = odd
    if draw(st.integers(0, 5)) == 0:
        place = draw(st.integers(0, len(cells) - 1))
        cells[place:place] = [cells[place]] * draw(st.integers(1, 40))
    if ragged and draw(st.integers(0, 5)) == 0:
        line = cells[draw(st.integers(0, len(cells) - 1))]
        line[:] = line[: draw(st.integers(0, len(line)))] if draw(st.booleans()) else [*line, "9"]
    text = io.StringIO(newline="")
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    csv.writer(text, quoting=quoting, lineterminator=draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))).writerows(cells)
    return text.getvalue().encode("utf-8", "surrogatepass")


def tree(draw: Draw, value: Any) -> Any:
    """A JSON value with some of its members replaced, removed or repeated."""
    whole = copy.deepcopy(value)
    for _ in range(draw(few)):
        places = list(_places(whole))
        if not places:
            break
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        how = draw(st.integers(0, 5))
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, list):
            holder.extend([copy.deepcopy(holder[key])] * draw(st.integers(1, 40)))
        else:
            holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return whole


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key, member in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(member)


def lines(draw: Draw, text: str) -> bytes:
    """A text with some lines removed, repeated or moved, and some words replaced."""
    found = text.splitlines()
    for _ in range(draw(few)):
        place = draw(st.integers(0, len(found) - 1))
        how = draw(st.integers(0, 3))
        if how == 0 and len(found) > 1:
            del found[place]
        elif how == 1:
            found[place:place] = [found[place]] * draw(st.integers(1, 40))
        else:
            words = found[place].split(" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(CELLS))
            found[place] = " ".join(words)
    return "\n".join([*found, ""]).encode("utf-8", "surrogatepass")


def octets(draw: Draw, content: bytes, often: int = 3) -> bytes:
    """The content, one time in ``often`` with some bytes changed, removed, repeated or cut off."""
    if draw(st.integers(0, often - 1)) or not content:
        return content
    spoilt = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(spoilt) - 1)))
        how = draw(st.integers(0, 4))
        if how == 0:
            del spoilt[place:]
        elif how == 1:
            del spoilt[place : place + draw(st.integers(1, 64))]
        elif how == 2:
            spoilt[place:place] = spoilt[place : place + 64]
        else:
            new = draw(st.binary(min_size=1, max_size=8))
            spoilt[place : place + len(new)] = new
    return bytes(spoilt)


def packed(draw: Draw, content: bytes) -> bytes:
    """The content, now and then as gzip, now and then broken."""
    content = octets(draw, content)
    return octets(draw, gzip.compress(content), 4) if draw(st.integers(0, 7)) == 0 else content
