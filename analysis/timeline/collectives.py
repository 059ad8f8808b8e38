"""Collectives by kind and size: bus bandwidth, and the time of the transfer apart from waiting for other ranks.

PyTorch states kind, sizes, type and group of a collective with its kernel. The rank that arrives last spends the
shortest time in it, which is the time of the transfer; what the others spend beyond that is waiting. Only durations
are compared, so the clocks of the hosts do not matter. Kinds and their formulas are in collectives.toml.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tomli

from .host_clocks import column_names
from .trace import Trace, Window
from .wording import sentence

_LONGEST = 60
_COUNTS = {"ranks": 1 << 31, "in": 1 << 53, "out": 1 << 53}
"""Counts that a collective states -> what they are below, if they are usable."""
_MOST = 20_000
"""The number of collectives that differ in kind, sizes, type or group; any others are not examined."""


@cache
def _data() -> dict[str, Any]:
    return tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def collectives(trace: Trace, windows: Sequence[Window] | None = None) -> list[dict[str, Any]]:
    """Return the collectives that begin in the windows, or in the whole trace, longest time first.

    Each is a row of the table collectives: those of one kind, type and size.

    Empty if the trace states none. A collective counts for a window by the start of its first kernel.
    """
    if not trace.communicates or "arguments" not in column_names(trace.workload, trace.events):
        return []
    texts = trace.rows(
        f"SELECT DISTINCT arguments FROM {trace.events} WHERE kind = 'kernel' AND arguments IS NOT NULL "
        f"ORDER BY 1 LIMIT {_MOST}"
    )
    known = [{"text": text, **facts} for (text,) in texts if (facts := _facts(text))]
    if not known:
        return []
    spans = " OR ".join(f"start_ns >= {w.start} AND start_ns < {w.end}" for w in windows or ()) or "true"
    result = trace.workload.cursor.execute(_SUMS.format(events=trace.events, spans=spans), [json.dumps(known)])
    columns = [column[0] for column in result.description or []]
    rows = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
    return [row | {"reason": row["reason"] and sentence(f"collective_{row['reason']}", **row)} for row in rows]


_SUMS = """
WITH known AS (SELECT unnest(from_json(?::JSON, '[{{"text": "VARCHAR", "name": "VARCHAR", "kind": "VARCHAR",
    "type": "VARCHAR", "bytes": "DOUBLE", "moved": "DOUBLE", "ranks": "INTEGER", "same": "VARCHAR", "alone": "BOOLEAN",
    "reason": "VARCHAR"}}]'), recursive := true)),
one AS (SELECT known.*, rank, pid, device_id, start_ns, end_ns - start_ns AS ns,
    row_number() OVER (PARTITION BY rank, pid, device_id, same ORDER BY start_ns) AS nth,
    count(*) OVER (PARTITION BY rank, pid, device_id, same) AS n
    FROM {events} e JOIN known ON known.text = e.arguments WHERE e.kind = 'kernel'),
alike AS (SELECT same, min(n) = max(n) AND NOT any_value(alone) AS matched FROM one GROUP BY same),
each AS (SELECT name, kind, type, max(bytes) AS bytes, max(moved) AS moved, ranks, any_value(reason) AS reason,
    any_value(matched) AS matched,
    any_value(alone) AS alone, count(*) AS recorded, sum(ns) AS ns, min(ns) AS shortest, min(start_ns) AS start_ns
    FROM one JOIN alike USING (same)
    GROUP BY same, name, kind, type, ranks, nth, CASE WHEN NOT matched THEN (rank, pid, device_id) END),
sums AS (SELECT name AS collective, kind, type, bytes, ranks AS group_size, max(recorded)::INTEGER AS recorded,
    count(*) AS calls, sum(ns)::BIGINT AS ns, sum(shortest)::BIGINT AS transfer_ns,
    CASE WHEN bool_and(matched AND recorded > 1) THEN sum(ns - recorded * shortest)::BIGINT END AS waited_ns, moved,
    any_value(reason) AS without, bool_and(matched) AS matched, bool_or(alone) AS alone
    FROM each WHERE {spans} GROUP BY name, kind, type, bytes, moved, ranks)
SELECT * EXCLUDE (moved, without, matched, alone), 100 * waited_ns / nullif(ns, 0) AS waited_pct,
    CASE WHEN without IS NULL THEN bytes * calls / nullif(transfer_ns, 0) END AS algbw_gbs,
    CASE WHEN without IS NULL THEN moved * calls / nullif(transfer_ns, 0) END AS busbw_gbs,
    CASE WHEN without IS NOT NULL THEN 'undefined' WHEN alone OR NOT matched OR recorded < group_size THEN 'suspect'
        ELSE 'ok' END AS status,
    CASE WHEN without IS NOT NULL THEN without WHEN alone THEN 'waits_for_other' WHEN NOT matched THEN 'unequal_numbers'
        WHEN recorded < group_size THEN 'ranks_missing' END AS reason
    FROM sums ORDER BY ns DESC, collective, type, bytes
"""
"""SQL: the n-th collective of a group is the same one on all ranks if they have equally many of them.

The bandwidths are those of nccl-tests; a bus bandwidth that is suspect is a lower bound.
"""


def _facts(text: str) -> dict[str, Any] | None:
    """Return the facts of a collective from the column ``arguments``; None if it is not such a text."""
    try:
        stated = json.loads(text)
    except ValueError:
        return None
    if type(stated) is not dict or type(stated.get("collective")) is not str:
        return None
    # Without surrogates, which JSON can state but UTF-8 cannot contain.
    name, element = (
        str(stated.get(key) or "")[:_LONGEST].encode(errors="replace").decode() for key in ("collective", "type")
    )
    kind = next((kind for kind in _data()["kind"] if re.fullmatch(kind["pattern"], name)), None)
    ranks, sent, received = (_whole(stated.get(key), most) for key, most in _COUNTS.items())
    size, moved, reason = _sizes(kind, element, (sent, received, ranks), str(stated.get("split") or ""))
    return {
        "name": name,
        "kind": kind and kind["name"],
        "type": element or None,
        "bytes": size,
        "moved": moved,
        "ranks": ranks,
        "same": json.dumps([name, str(stated.get("group")), str(stated.get("members"))]),
        "alone": "alone" in (kind or ()),
        "reason": reason,
    }


def _sizes(
    kind: dict[str, Any] | None, element: str, counts: tuple[int | None, int | None, int | None], split: str
) -> tuple[float | None, float | None, str | None]:
    """Return the size, the bytes that count for the bus bandwidth, and a code for why one of them is unknown."""
    sent, received, ranks = counts
    width = _data()["types"].get(element)
    if kind is None:
        return None, None, "no_formula"
    elements = sent if kind["bytes"].startswith("in") else received
    if width is None or elements is None or not ranks:
        return None, None, "unknown_sizes"
    size = float(elements * width * (ranks if kind["bytes"].endswith("* n") else 1))
    if len(set(re.findall(r"\d+", split))) > 1:
        return size, None, "unequal_parts"
    return size, kind["factor"] * size * ((ranks - 1) / ranks if "others" in kind else 1), None


def _whole(value: Any, most: int) -> int | None:
    return value if type(value) is int and 0 <= value < most else None
