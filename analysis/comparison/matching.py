"""Match the kernels of two workloads: by name, then as fused ones or by similarity, which is always reported."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Literal

from ..base.problems import BadArgument
from ..base.text import count_text
from ..catalogue.thresholds import threshold
from .time_ratio import KernelTotals

_LIKE = threshold("comparison.similar_names")
_OTHER_SIZE = threshold("comparison.other_size")
_COMPARED = 30
"""The maximum number of kernels of each side, longest first, whose similarity is computed for every pair."""
Find = Callable[[str], Sequence[str]]
_MOST_FUSED = 8
How = Literal["same_name", "parameters", "only", "similar", "fused", "group"]
_LABEL = re.compile(r"[\w .+-]{1,60}")


@dataclass(frozen=True)
class Pair:
    """Kernels of the baseline and of the candidate that are compared with each other.

    ``how`` is the reason for the match: the same name, the same except for parameters, the only kernels, similar names
    (with ``likeness`` from 0 to 1), several kernels against one that is launched as often, or a requested group.
    """

    label: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    how: How
    likeness: float | None = None

    @property
    def of_several(self) -> bool:
        """Whether it is a group of kernels, requested or fused, which has a label of its own."""
        return self.how in ("group", "fused")


@dataclass(frozen=True)
class KernelMatching:
    """All pairs, longest first, and the kernels without a counterpart."""

    pairs: list[Pair]
    only_before: list[str]
    only_after: list[str]


def match(before: Collection[KernelTotals], after: Collection[KernelTotals], *, fused: bool = True) -> KernelMatching:
    """Pair kernels by name, by base name (without parameters, template arguments, namespace), several with one that
    replaces them (if ``fused``), then by similarity, unless their launches are of very different sizes."""
    left, right = {k.name: k for k in before}, {k.name: k for k in after}
    pairs = [Pair(name, (name,), (name,), "same_name") for name in left if name in right]
    only_before, only_after = [n for n in left if n not in right], [n for n in right if n not in left]
    finders: list[Callable[[list[str], list[str]], list[Pair]]] = [_same_base, _best]
    if len(left) == len(right) == 1:
        finders.insert(0, partial(_best, how="only"))
    elif fused and _are_fused([left[n].timed for n in only_before], [right[n].timed for n in only_after]):
        finders.insert(1, _all_together)
    for find in finders:
        for pair in find(only_before, only_after):
            sizes = sorted(k.threads or math.nan for k in (left[pair.before[0]], right[pair.after[0]]))
            if pair.how == "similar" and sizes[1] / sizes[0] >= _OTHER_SIZE:
                continue
            pairs.append(pair)
            only_before = [name for name in only_before if name not in pair.before]
            only_after = [name for name in only_after if name not in pair.after]
    pairs.sort(key=lambda p: -left[p.before[0]].total_ns)
    return KernelMatching(pairs, only_before, only_after)


def _are_fused(before: list[int], after: list[int]) -> bool:
    """Whether several kernels on one side and one on the other are launched equally often: fused or split ones."""
    sizes = sorted((len(before), len(after)))
    return sizes[0] == 1 < sizes[1] <= _MOST_FUSED and len({*before, *after}) == 1


def _all_together(before: list[str], after: list[str]) -> list[Pair]:
    if min(len(before), len(after)) != 1 or max(len(before), len(after)) < 2:
        return []
    words = [base_name(names[0]) if len(names) == 1 else count_text(len(names), "kernel") for names in (before, after)]
    return [Pair(" -> ".join(words), tuple(before), tuple(after), "fused")]


def pair_groups(
    before: Collection[KernelTotals],
    after: Collection[KernelTotals],
    groups: Mapping[str, Sequence[str]],
    find: tuple[Find, Find],
) -> KernelMatching:
    """Pair sets of kernels: label -> [pattern of the baseline's, pattern of the candidate's].

    ``find`` returns the kernels that match a pattern on each side. Raises BadArgument for anything else, or if a
    kernel would be counted twice.
    """
    pairs = list[Pair]()
    for label, patterns in groups.items():
        if not _LABEL.fullmatch(label) or len(patterns) != 2:
            raise BadArgument(
                f"group {label[:60]!r} cannot be read",
                fix='Give {"label": ["pattern of the baseline\'s kernels", "pattern of the candidate\'s"]}',
            )
        pair = Pair(label, tuple(find[0](patterns[0])), tuple(find[1](patterns[1])), "group")
        for other in pairs:
            if twice := {*pair.before} & {*other.before} or {*pair.after} & {*other.after}:
                raise BadArgument(f"Groups {other.label!r} and {label!r} share a kernel", sorted(twice)[0][:200])
        pairs.append(pair)
    both = {k.name for k in before} & {k.name for k in after}
    used_before = both.union(*(p.before for p in pairs))
    used_after = both.union(*(p.after for p in pairs))
    return KernelMatching(
        pairs,
        [k.name for k in before if k.name not in used_before],
        [k.name for k in after if k.name not in used_after],
    )


def base_name(kernel: str) -> str:
    """The name of the function without result type, namespaces, template arguments, parameters and loader suffix."""
    text = kernel.replace("(anonymous namespace)::", "").removesuffix(".kd")
    depth, kept = 0, []
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if depth <= 0 and character not in ">)]}":
            kept.append(character)
        depth = max(depth, 0)
    words = "".join(kept).split()
    return words[-1].rpartition("::")[2] if words else kernel


def _same_base(before: list[str], after: list[str]) -> list[Pair]:
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for i, names in enumerate((before, after)):
        for name in names:
            groups.setdefault(base_name(name), ([], []))[i].append(name)
    return [pair for alike in groups.values() for pair in _best(*alike, "parameters")]


def _best(before: Sequence[str], after: Sequence[str], how: How = "similar") -> list[Pair]:
    """Pairs by decreasing similarity of the names, or of the base names if these differ; each kernel is in one."""
    key, least = (base_name, _LIKE) if how == "similar" else (str, 0.0)
    ranked = sorted(
        (-SequenceMatcher(None, key(a), key(b)).ratio(), i, j)
        for i, a in enumerate(before[:_COMPARED])
        for j, b in enumerate(after[:_COMPARED])
    )
    pairs: dict[str, Pair] = {}
    taken = set[int]()
    for unlike, i, j in ranked:
        name = before[i]
        if -unlike >= least and name not in pairs and j not in taken:
            likeness = -unlike if how == "similar" else None
            pairs[name] = Pair(f"{name} -> {after[j]}", (name,), (after[j],), how, likeness)
            taken.add(j)
    return list(pairs.values())
