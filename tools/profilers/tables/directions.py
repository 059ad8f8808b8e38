"""Which way a copy goes, and whether its host memory is pinned, told by its name, as SQL for all readers."""

from __future__ import annotations

_WAYS = {
    "h2d": "htod|host_?to_?device|h2d",
    "d2h": "dtoh|device_?to_?host|d2h",
    "p2p": "ptop|peer_?to_?peer|p2p",
    "d2d": "dtod|device_?to_?device|d2d",
    "h2h": "htoh|host_?to_?host|h2h",
}


def direction_of(name: str) -> str:
    """SQL: one of DIRECTIONS of timeline.py."""
    cases = " ".join(f"WHEN regexp_matches(lower({name}), '{fits}') THEN '{way}'" for way, fits in _WAYS.items())
    return f"CASE {cases} ELSE 'other' END"


def pinned(name: str) -> str:
    """SQL: whether the host's side is pinned; NULL where the name does not tell."""
    return (
        f"CASE WHEN contains(lower({name}), 'pageable') THEN false WHEN contains(lower({name}), 'pinned') THEN true END"
    )
