"""Which workloads of a store are kept, by age, number and labels; what no rule keeps is to go."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.base.problems import BadArgument, NotFound, near
from ...analysis.store.store import Manifest
from .workload_choice import labels

_DAY_S = 86_400
_UNITS_S = {"h": 3600, "d": _DAY_S, "w": 7 * _DAY_S, "y": 365 * _DAY_S}
_AGE = re.compile(r"(\d{1,5})([hdwy])")


@dataclass(frozen=True)
class RetentionRules:
    """What is kept: workloads younger than ``younger_s``, the ``last`` of each name, and those with one of ``tags``."""

    younger_s: float | None = None
    last: int | None = None
    tags: Sequence[str] = ()

    @classmethod
    def parse(cls, keep: str | None, last: int | None, tags: Sequence[str]) -> RetentionRules:
        """As a person writes them: ``90d``, ``12w``, ``6h``, ``2y``. BadArgument where nothing is to be kept."""
        younger = None
        if keep is not None:
            match = _AGE.fullmatch(keep.strip())
            if not match:
                raise BadArgument(f"{keep!r} is no age", "it is a whole number and h, d, w or y", "Such as --keep 90d")
            younger = int(match[1]) * _UNITS_S[match[2]]
            if not younger:
                raise BadArgument(f"--keep {keep} keeps nothing", "everything would go", "Such as --keep 90d")
        if last is not None and last < 1:
            raise BadArgument(f"--keep-last {last} keeps nothing", "everything would go", "Give 1 or more")
        if younger is None and last is None and not tags:
            what = "No rule says what to keep"
            raise BadArgument(what, "everything would go", "Give --keep AGE, --keep-last N or --keep-tag TAG")
        return cls(younger, last, tags)


def expired_workloads(
    manifests: Sequence[Manifest], rules: RetentionRules, now_ns: int | None = None
) -> list[Manifest]:
    """The workloads that no rule keeps, oldest first. What claims to be of the future is young.

    Raises NotFound, with near names, for a label to keep that nothing has.
    """
    there = {label for m in manifests for label in labels(m)}
    for tag in rules.tags:
        if manifests and tag not in there:
            raise NotFound(f"No workload has {tag}", near(tag, sorted(there)), "list_workloads shows tags")
    now = time.time_ns() if now_ns is None else now_ns
    count_by_name: dict[str, int] = {}
    going = []
    for manifest in sorted(manifests, key=lambda m: (m.created_ns, m.id), reverse=True):
        newer = count_by_name[manifest.name] = count_by_name.get(manifest.name, 0) + 1
        young = rules.younger_s is not None and now - manifest.created_ns < rules.younger_s * 1e9
        among_last = rules.last is not None and newer <= rules.last
        if not (young or among_last or not labels(manifest).isdisjoint(rules.tags)):
            going.append(manifest)
    return going[::-1]
