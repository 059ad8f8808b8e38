"""The lines behind a verdict on a kernel: its hottest places among the samples that speak for a subsystem."""

from __future__ import annotations

from collections.abc import Set
from pathlib import PurePosixPath

from ..workload import Workload
from .code import KernelInstruction, classes, read
from .kernels import HotKernel, has_code
from .ranking import FEW, Ranking, Spot, rank
from .stalls import ISSUED, READY, reasons

_DATA = frozenset({"memory", "memory_queue", "drain"})
_SPEAKS = {  # subsystem of a verdict -> reasons of waits that it explains; of others all waits count
    "hbm": _DATA, "l2": _DATA, "vl1d": _DATA, "fabric": _DATA, "scratch": _DATA, "atomics": _DATA | {"fence"},
    "lds": {"lds", "lds_queue"}, "barrier": {"barrier", "fence"}, "matrix": {"matrix", "pipe", "dependency"},
    "valu": {"pipe", "dependency"}, "sfu": {"pipe", "lds", "lds_queue", "dependency"}, "salu": {"constant"},
    "instruction_fetch": {"instruction_fetch"}, "divergence": {"branch", "dependency"},
}  # fmt: skip
_LEAST_PCT = 5.0
_TEXT = 60


def quotes(workload: Workload, one: HotKernel, subsystem: str, limit: int = 3) -> list[str]:
    """Lines of words, the most telling first; none where the kernel has too few samples to be evidence.

    A place counts by its samples for reasons that the subsystem explains, and of a subsystem that some class of
    instructions uses, such as scratch, by these instructions alone where they have any.
    """
    if not has_code(workload) or not one.small:
        return []
    ranking = rank(read(workload, one.kernel, one.launch), "line")
    if ranking.unit != "samples" or ranking.total < FEW:
        return []
    speaking = _SPEAKS.get(subsystem)
    weights = [(_weight(spot, speaking), spot) for spot in ranking.spots]
    using = [(weight, spot) for weight, spot in weights if _uses(spot, ranking, subsystem)]
    hottest = sorted(using if sum(w for w, _ in using) else weights, key=lambda pair: -pair[0])[:limit]
    return [
        _line(ranking, spot, weight)
        for weight, spot in hottest
        if weight and (ranking.share_pct(weight) or 0.0) >= _LEAST_PCT
    ]


def _weight(spot: Spot, speaking: Set[str] | None) -> float:
    known = reasons()
    if speaking is None:
        return sum(n for reason, n in spot.reasons.items() if reason not in (ISSUED, READY))
    return sum(n for reason, n in spot.reasons.items() if reason is None or (reason in known and reason in speaking))


def _uses(spot: Spot, ranking: Ranking, subsystem: str) -> bool:
    if subsystem not in ("scratch", "atomics", "sfu", "matrix", "barrier"):
        return False
    kinds = (one.kind for one in spot.instructions if spot.parts.get(one.key))
    return any(kind is not None and classes()[kind].subsystem == subsystem for kind in kinds if kind in classes())


def _line(ranking: Ranking, spot: Spot, weight: float) -> str:
    key = spot.main
    main = next(one for one in spot.instructions if one.key == key)
    reason = max(spot.reasons, key=lambda r: spot.reasons[r], default=None)
    why = f", most of them {reason}" if reason else ""
    share = ranking.share_pct(weight) or 0.0
    return f"{place(main)}: {share:.0f} % of the kernel's samples{why}"


def place(one: KernelInstruction) -> str:
    """File and line, and the instruction; that alone without line information."""
    text = one.key.text if len(one.key.text) <= _TEXT else f"{one.key.text[: _TEXT - 3]}..."
    at = "" if one.key.offset is None else f"0x{one.key.offset:x} "
    if one.line.file is None or one.line.number is None:
        return f"{at}{text}"
    return f"{PurePosixPath(one.line.file).name}:{one.line.number} ({text})"
