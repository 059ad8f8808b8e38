"""Defines operations with changes that reveal their limit, the table of all operations, and helpers to build them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

MI = 1 << 20
Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """An operation and its changes: a fix computes the same result, a removal reduces the load of one unit.

    A change with a number does that multiple of the work of the operation.
    """

    base: Call
    fixes: Mapping[str, Call | tuple[Call, float]] = field(default_factory=dict)
    removals: Mapping[str, Call | tuple[Call, float]] = field(default_factory=dict)


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def real(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers, generated in FP32, which every device supports."""
    return torch.randn(*shape, device="cuda").to(dtype)


def indices(count: int, below: int) -> torch.Tensor:
    return torch.randint(below, (count,), device="cuda")


def into(function: Callable[..., object], *operands: torch.Tensor, **more: object) -> Call:
    """A call that writes into existing memory, so that nothing is allocated while it is timed."""
    out = function(*operands, **more)
    return lambda: function(*operands, **more, out=out)
