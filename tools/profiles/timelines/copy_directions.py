"""Which way a copy goes, and whether its host memory is pinned, told by its name, as SQL for all readers."""

from __future__ import annotations

_WAYS = {
    "h2d": "htod|host_?to_?device|h2d",
    "d2h": "dtoh|device_?to_?host|d2h",
    "p2p": "ptop|peer_?to_?peer|p2p",
    "d2d": "dtod|device_?to_?device|d2d",
    "h2h": "htoh|host_?to_?host|h2h",
}
_CUDA = {1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 9: "h2h", 10: "p2p",
         11: "h2d", 12: "d2h", 13: "d2d"}  # fmt: skip
"""CUpti_ActivityMemcpyKind, and from 11 on what Nsight Systems calls the moves of unified memory."""
_PAGEABLE, _PINNED = 1, 2
"""CUpti_ActivityMemoryKind."""


def cuda_copy(number: str) -> str:
    """SQL: the direction of the CUpti_ActivityMemcpyKind ``number``."""
    cases = " ".join(f"WHEN {way} THEN '{name}'" for way, name in _CUDA.items())
    return f"CASE {number} {cases} ELSE 'other' END"


def cuda_pinned(number: str, source: str, target: str) -> str:
    """SQL: whether the host's side of a copy is pinned, by the CUpti_ActivityMemoryKind of both sides."""
    host = f"CASE {cuda_copy(number)} WHEN 'h2d' THEN {source} WHEN 'd2h' THEN {target} END"
    return f"CASE {host} WHEN {_PAGEABLE} THEN false WHEN {_PINNED} THEN true END"


def direction_of(name: str) -> str:
    """SQL: one of DIRECTIONS of timeline.py."""
    cases = " ".join(f"WHEN regexp_matches(lower({name}), '{fits}') THEN '{way}'" for way, fits in _WAYS.items())
    return f"CASE {cases} ELSE 'other' END"


def is_pinned(name: str) -> str:
    """SQL: whether the host's side is pinned; NULL where the name does not tell."""
    return (
        f"CASE WHEN contains(lower({name}), 'pageable') THEN false WHEN contains(lower({name}), 'pinned') THEN true END"
    )
