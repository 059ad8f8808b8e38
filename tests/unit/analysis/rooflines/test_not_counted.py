"""What a target can count and a profile did not is null with a reason at every kind of point, never 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue import targets, work_formulas
from rooflens.analysis.catalogue.work_formulas import WorkOperation
from rooflens.analysis.rooflines.roofline import build_roofline
from rooflens.analysis.store.store import Store
from rooflens.tests.support.rooflines import points, publish, scene

COUNTING = [
    (target, operation)
    for target in catalog.targets_with_metrics()
    if targets.gpu(target).vendor != "cpu"
    for operation in work_formulas.work_formulas(target).operations("flop", "iop")
]


def behind(target: str, operation: WorkOperation) -> set[str]:
    """The counters of an operation; of a matrix type also those that tell that no matrix instruction ran."""
    formulas = [operation.count]
    if operation.pipe == "matrix":
        used = work_formulas.formulas(target)["mfma_instructions"]
        formulas += catalog.alternatives(target).get(used, (used,))
    return set(catalog.counters_of(target, formulas))


@pytest.mark.parametrize(("target", "operation"), COUNTING, ids=lambda v: v if isinstance(v, str) else v.name)
def test_operations_without_their_counters_are_null_with_a_reason(
    target: str, operation: WorkOperation, tmp_path: Path
) -> None:
    manifest = publish(
        Store(tmp_path), [{"kernel": "k", "duration_ns": 1e4}], arch=target, without=behind(target, operation),
        vendor=targets.gpu(target).vendor,
    )  # fmt: skip
    found = scene(Store(tmp_path), manifest)
    for (_, level, _), point in points(found, operation.name).items():
        assert (point.status, point.operations, point.performance) == ("not_collected", None, None), level
        assert point.reason is not None
    for (_, level, _), point in points(found, operation.kind).items():
        assert (point.status != "ok" and operation.name in str(point.reason)) or point.operations is None, level


@pytest.mark.parametrize("target", list(dict.fromkeys(target for target, _ in COUNTING)))
def test_zero_is_shown_where_it_was_counted(target: str, tmp_path: Path) -> None:
    manifest = publish(Store(tmp_path), [{"kernel": "k", "duration_ns": 1e4}], arch=target)
    for datatype in ("flop", "iop"):
        made = points(scene(Store(tmp_path), manifest), datatype)
        assert {(p.operations, p.performance, p.status) for p in made.values()} == {(0, 0, "ok")}


@pytest.mark.parametrize("target", [t for t in catalog.targets_with_metrics() if targets.gpu(t).vendor != "cpu"])
def test_instructions_without_their_counters_are_null_with_a_reason(target: str, tmp_path: Path) -> None:
    issue = set(catalog.counters_of(target, [work_formulas.formulas(target)["issue"]]))
    manifest = publish(Store(tmp_path), [{"kernel": "k", "duration_ns": 1e4}], arch=target, without=issue)
    for point in build_roofline(
        scene(Store(tmp_path), manifest), ("hbm", "l2", "vl1d", "lds"), kind="instruction"
    ).points:
        assert (point.status, point.operations, point.performance) == ("not_collected", None, None)
        assert point.reason is not None
