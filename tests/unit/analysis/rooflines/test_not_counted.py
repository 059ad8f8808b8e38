"""What a target can count and a profile did not is null with a reason at every kind of point, never 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue import targets, work_formulas
from rooflens.analysis.catalogue.work_formulas import WorkOperation
from rooflens.analysis.rooflines.roofline import build_roofline
from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.support.rooflines import points, publish, scene

TARGETS = ("gfx908", "gfx950", "gfx1151", "sm_90")
"""Those whose formulas differ; the others are like one of these."""


def behind(target: str, operation: WorkOperation) -> set[str]:
    """The counters of an operation; of a matrix type also those that tell that no matrix instruction ran."""
    formulas = [operation.count]
    if operation.pipe == "matrix":
        used = work_formulas.formulas(target)["mfma_instructions"]
        formulas += catalog.alternatives(target).get(used, (used,))
    return set(catalog.counters_of(target, formulas))


@pytest.mark.parametrize("target", TARGETS)
def test_operations_without_their_counters_are_null_with_a_reason(target: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    whole = published(store, target)
    every = work_formulas.work_formulas(target).operations("flop", "iop")
    of_pipes = {(operation.pipe, operation.kind): operation for operation in every}
    for operation in of_pipes.values():
        found = scene(store, without(whole, behind(target, operation)))
        for (_, level, _), point in points(found, operation.name).items():
            assert (point.status, point.operations, point.performance) == ("not_collected", None, None), level
            assert point.reason is not None
        for (_, level, _), point in points(found, operation.kind).items():
            assert (point.status != "ok" and operation.name in str(point.reason)) or point.operations is None, level


def published(store: Store, target: str) -> Manifest:
    return publish(store, [{"kernel": "k", "duration_ns": 1e4}], arch=target, vendor=targets.gpu(target).vendor)


def without(whole: Manifest, counters: set[str]) -> Manifest:
    return whole.model_copy(update={"counters": [name for name in whole.counters if name not in counters]})


@pytest.mark.parametrize("target", TARGETS)
def test_instructions_without_their_counters_are_null_and_what_was_counted_is_zero(target: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    whole = published(store, target)
    issue = set(catalog.counters_of(target, [work_formulas.formulas(target)["issue"]]))
    found = scene(store, without(whole, issue))
    for point in build_roofline(found, ("hbm", "l2", "vl1d", "lds"), kind="instruction").points:
        assert (point.status, point.operations, point.performance) == ("not_collected", None, None)
        assert point.reason is not None
    if work_formulas.work_formulas(target).operations("flop", "iop"):
        found = scene(store, whole)
        for datatype in ("flop", "iop"):
            assert {(p.operations, p.performance, p.status) for p in points(found, datatype).values()} == {(0, 0, "ok")}
