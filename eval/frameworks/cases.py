"""What an operation with changes that show its limit is, the table of all of them, and what they are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

MI = 1 << 20
Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """An operation and its changes: a fix computes the same, a removal asks less of one unit.

    A change with a number beside it does so many times the work of the operation.
    """

    base: Call
    fixes: Mapping[str, Call | tuple[Call, float]] = field(default_factory=dict)
    removals: Mapping[str, Call | tuple[Call, float]] = field(default_factory=dict)


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def real(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers; made in FP32, which every device draws."""
    return torch.randn(*shape, device="cuda").to(dtype)


def indices(count: int, below: int) -> torch.Tensor:
    return torch.randint(below, (count,), device="cuda")


def into(function: Callable[..., object], *operands: torch.Tensor, **more: object) -> Call:
    """A call that writes where an earlier one wrote, so that no memory is taken while it is timed."""
    out = function(*operands, **more)
    return lambda: function(*operands, **more, out=out)
