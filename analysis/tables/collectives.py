"""The table collectives: the collectives by kind and size, with their bandwidths."""

from __future__ import annotations

from ..timeline.collectives import collectives
from .declaration import Column, DerivedTable, has_events, trace_rows

TABLE = DerivedTable(
    "collectives",
    "Collectives by kind and size, as PyTorch stated them: SELECT collective, bytes, busbw_gbs FROM collectives.",
    {
        "collective": Column("VARCHAR", "As PyTorch calls it"),
        "kind": Column("VARCHAR", "Such as all_reduce", answer=False),
        "type": Column("VARCHAR", "Of its elements"),
        "bytes": Column("DOUBLE", "Of one, as nccl-tests counts them", "bytes"),
        "group_size": Column("INTEGER", "Ranks that take part", answer="ranks"),
        "recorded": Column("INTEGER", "Ranks of them in the trace", answer=False),
        "calls": Column("BIGINT", "Collectives, each once for all ranks"),
        "ns": Column("BIGINT", "Of their kernels on all ranks", "ns"),
        "transfer_ns": Column("BIGINT", "Of the rank that arrived last at each", "ns"),
        "waited_ns": Column("BIGINT", "Of all ranks beyond that; NULL for one rank", "ns", answer=False),
        "waited_pct": Column("DOUBLE", "Likewise, of ns", "%", decimals=2),
        "algbw_gbs": Column("DOUBLE", "bytes / transfer_ns", "GB/s", answer=False),
        "busbw_gbs": Column("DOUBLE", "Bus bandwidth of nccl-tests", "GB/s", 4),
        "status": Column("VARCHAR", "ok, suspect or undefined, of the bandwidths"),
        "reason": Column("VARCHAR", "Why"),
    },
    rows=trace_rows(collectives),
    exists=has_events,
)
