"""The table phases: what the ranges of a program state of its phases, with the device work that they requested.

The time between tokens by batch size::

    SELECT requests, median(interval_ns) / 1e6 AS ms FROM phases WHERE phase = 'decode' GROUP BY requests
"""

from __future__ import annotations

from ..timeline.phases import phases
from .declaration import Column, DerivedTable, has_events, trace_rows

TABLE = DerivedTable(
    "phases",
    "Phases that ranges state (at most 200,000): "
    "SELECT requests, median(interval_ns) FROM phases WHERE phase = 'decode' GROUP BY 1.",
    {
        "phase": Column(
            "VARCHAR", "prefill, decode, mixed, training, evaluation, epoch, forward, backward, optimizer or sampling"
        ),
        "name": Column("VARCHAR", "Of the range"),
        "rank": Column("INTEGER", "Rank"),
        "pid": Column("BIGINT", "Process"),
        "thread": Column("BIGINT", "Thread"),
        "requests": Column("BIGINT", "Batch size, if the name states it"),
        "tokens": Column("BIGINT", "Likewise, tokens computed"),
        "start_ns": Column("BIGINT", "On the host", "ns"),
        "end_ns": Column("BIGINT", "On the host", "ns"),
        "device_start_ns": Column("BIGINT", "Of the first work requested in it", "ns"),
        "device_end_ns": Column("BIGINT", "Of the last", "ns"),
        "interval_ns": Column(
            "BIGINT", "Since device_end_ns of the previous one; of decode the time between tokens", "ns"
        ),
        "busy_ns": Column("BIGINT", "Its work runs, without overlap", "ns"),
        "attention_ns": Column("BIGINT", "Sum over its kernels", "ns"),
        "matrix_ns": Column("BIGINT", "Likewise, matrix products", "ns"),
        "convolution_ns": Column("BIGINT", "Likewise", "ns"),
        "collectives_ns": Column("BIGINT", "Likewise", "ns"),
        "normalisation_ns": Column("BIGINT", "Likewise", "ns"),
        "sampling_ns": Column("BIGINT", "Likewise", "ns"),
        "cache_ns": Column("BIGINT", "Likewise, of keys and values", "ns"),
        "copies_ns": Column("BIGINT", "Likewise, with fills", "ns"),
        "other_ns": Column("BIGINT", "Likewise, such as elementwise kernels", "ns"),
    },
    rows=trace_rows(phases),
    exists=has_events,
)
