"""Which launches of a program stand for all, and how profilers that number a kernel's launches are asked for them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence

LONGEST_NAME = 200
"""Characters of a name that are asked for; kernels that share so many are counted with it."""
_SPECIAL = re.compile(r"[\\^$.*+?()\[\]{}|]")


def choose_iterations(
    launches: Iterable[tuple[str, Hashable, int]], skip: int, count: int
) -> dict[str, tuple[int, ...]]:
    """Kernel -> the numbers of its launches that hold ``count`` of each configuration after the first ``skip``.

    ``launches`` are kernel, configuration and number among the launches of the kernel.
    A configuration with fewer launches gives the last that it has. Numbers that another configuration was given come
    first: a profiler that takes one list of numbers for all kernels then counts few launches that nobody asked for.
    """
    of: dict[tuple[str, Hashable], list[int]] = {}
    for kernel, configuration, number in launches:
        of.setdefault((kernel, configuration), []).append(number)
    taken: set[int] = set()
    wanted: dict[str, set[int]] = {}
    # The rarest first: they have no choice.
    once = {key: sorted(set(numbers)) for key, numbers in of.items()}  # other processes have the same numbers
    for (kernel, _), numbers in sorted(once.items(), key=lambda item: (len(item[1]), item[1])):
        candidates = numbers[skip:] if len(numbers) >= skip + count else numbers[-count:]
        picked = sorted(candidates, key=lambda n: (n not in taken, n))[:count]
        taken.update(picked)
        wanted.setdefault(kernel, set()).update(picked)
    return {kernel: tuple(sorted(numbers)) for kernel, numbers in wanted.items()}


def exact_names_pattern(names: Sequence[str]) -> str:
    """A regular expression, as ECMAScript reads it, for these names and no others; of long names their beginning."""
    parts = [f"^{_SPECIAL.sub(_escape, n[:LONGEST_NAME])}{'' if len(n) > LONGEST_NAME else '$'}" for n in names]
    return "|".join(dict.fromkeys(parts))


def _escape(match: re.Match[str]) -> str:
    return "\\" + match[0]


def number_ranges(numbers: Iterable[int]) -> str:
    """Numbers as rocprofv3 takes them: ``[3,5,9-11]``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return f"[{','.join(str(a) if a == b else f'{a}-{b}' for a, b in parts)}]"


def counted_besides(iterations: Mapping[str, Sequence[int]]) -> int:
    """Launches that one list of numbers for all kernels counts at most beside those asked for."""
    union = {number for numbers in iterations.values() for number in numbers}
    return sum(len(union) - len(set(numbers)) for numbers in iterations.values())
