"""Copies workloads from one store to another: the same code for push and pull."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.base.problems import BadArgument
from ...analysis.store.store import Manifest, Store
from ..base.progress import report


@dataclass(frozen=True)
class TransferredWorkload:
    """One workload, and whether it was not there before."""

    manifest: Manifest
    new: bool


def transfer(source: Store, target: Store, manifests: Sequence[Manifest]) -> list[TransferredWorkload]:
    """Copy workloads under their ids; what is there already is left, so that it can be repeated at will.

    Raises StoreProblem where a place refuses, or holds another workload of an id.
    """
    if source.address == target.address:
        raise BadArgument("Both stores are the same", source.address, "Name another with --store")
    new = target.add(source, manifests, report)
    return [TransferredWorkload(*pair) for pair in zip(manifests, new, strict=True)]
