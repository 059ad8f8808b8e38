"""The experiment log: what was tried, why, and what came of it, as small files that are only ever added."""

from __future__ import annotations

import re
import time
from typing import Literal

import pydantic

from .comparison.matching import base_name
from .problems import StoreProblem
from .store import Store, new_id, write_atomically

_FOLDER = "note"
_ID = re.compile(r"[0-9a-z]{16}")
_ALIKE = 0.6
"""Share of the words of the shorter text that the other must have to be the same idea."""
_WORD = re.compile(r"[a-z0-9]+")
_SHORTEST = 3
# fmt: off
_EMPTY = frozenset((
    "the", "and", "for", "with", "that", "this", "from", "into", "than", "then", "use", "using", "used", "more", "less",
    "each", "one", "its", "are", "was", "will", "should", "not", "instead", "now", "kernel", "because", "make", "time",
    "try", "per", "all", "get", "let", "can",
))
_SAME = {
    "shared": "lds", "smem": "lds", "shmem": "lds", "warp": "wave", "wavefront": "wave", "workgroup": "block",
    "threadblock": "block", "cta": "block", "vgpr": "register", "agpr": "register", "sgpr": "register",
    "vectorise": "vector", "vectorize": "vector", "float4": "vector", "double2": "vector", "float2": "vector",
    "dram": "hbm", "coalesced": "coalesce", "coalescing": "coalesce", "tiled": "tile", "tiling": "tile",
    "fused": "fuse", "fusion": "fuse",
}
# fmt: on
"""Words of the two vendors, and of habit, that mean one thing."""


class Outcome(pydantic.BaseModel):
    """What a comparison found for one kernel (or group): speed-up with its 95 % interval where there is one."""

    kernel: str
    kernels: list[str] = []
    """All kernels behind it, of both versions; those of a group and renamed ones among them."""
    verdict: str
    why: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    same_work: str = "unknown"


class Entry(pydantic.BaseModel):
    """One line of the log: a profile taken to try something, or a comparison that judged it."""

    model_config = pydantic.ConfigDict(extra="ignore")

    id: str = ""
    created_ns: int = 0
    kind: Literal["profile", "comparison"]
    workload: str
    baseline: str | None = None
    hypothesis: str = ""
    change: str = ""
    outcomes: list[Outcome] = []


class Tried(pydantic.BaseModel):
    """An earlier experiment with the same idea; ``outcome`` is what was found for the kernel."""

    entry: Entry
    outcome: Outcome


def record(store: Store, entry: Entry) -> Entry:
    """Add an entry and return it with its id and time. Raises StoreProblem where it cannot be written."""
    now = time.time_ns()
    done = entry.model_copy(update={"id": new_id(now), "created_ns": now})
    folder = store.root / _FOLDER
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"{done.id}.json", done.model_dump_json(indent=1))
    except OSError as error:
        raise StoreProblem(
            f"The experiment cannot be noted in {folder}",
            error.strerror or str(error),
            "Check the space and the permissions of the store",
        ) from error
    return done


def entries(store: Store) -> list[Entry]:
    """All entries, oldest first; files that are none are passed over."""
    found = []
    for path in sorted((store.root / _FOLDER).glob("*.json")):
        if not _ID.fullmatch(path.stem):
            continue
        try:
            found.append(Entry.model_validate_json(path.read_bytes()))
        except (OSError, pydantic.ValidationError):
            continue
    return sorted(found, key=lambda e: (e.created_ns, e.id))


def already_tried(store: Store, kernel: str, idea: str) -> list[Tried]:
    """Earlier comparisons that tried the same idea on a kernel, newest first.

    ``idea`` is a few words, such as an advice. The same idea is one whose words for the most part stand in the
    hypothesis or the change, by their stems and with what both vendors call things taken as one; the same kernel is one
    of the same name, whatever its parameters and template arguments.
    """
    wanted, name = _stems(idea), base_name(kernel)
    found = []
    for entry in reversed(entries(store)):
        if not any(_alike(wanted, _stems(text)) for text in (entry.change, entry.hypothesis)):
            continue
        for outcome in entry.outcomes:
            if name in {base_name(k) for k in (outcome.kernel, *outcome.kernels)}:
                found.append(Tried(entry=entry, outcome=outcome))
    return found


def _alike(one: set[str], other: set[str]) -> bool:
    if not one or not other:
        return False
    short, long = sorted((one, other), key=len)
    shared = sum(any(_same_stem(a, b) for b in long) for a in short)
    return shared >= _ALIKE * len(short) and (shared > 1 or len(short) == 1)


def _stems(text: str) -> set[str]:
    words = (w for w in _WORD.findall(text.lower().replace("shared memory", "lds")) if w not in _EMPTY)
    return {_SAME.get(w, _SAME.get(w.rstrip("s"), w)) for w in words if len(w) >= _SHORTEST or w.isdigit()}


def _same_stem(one: str, other: str) -> bool:
    """Whether one word begins with the other but for a few letters: pad, padded, padding."""
    if one.isdigit() or other.isdigit():
        return one == other
    short, long = sorted((one, other), key=len)
    common = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return common >= max(_SHORTEST, len(short) - 2) and len(long) - common <= 5
