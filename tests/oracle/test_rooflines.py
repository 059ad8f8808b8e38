"""Rooflines against rocprof-compute's recorded points, ceilings and ridges."""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from rooflens.analysis.rooflines.roofline import RooflinePoint, build_roofline
from rooflens.analysis.store.store import Store
from rooflens.tests.support import oracle
from rooflens.tests.support.rooflines import scene

PEER_LEVELS = {"ai_l1": "vl1d", "ai_l2": "l2", "ai_hbm": "hbm", "perf": "hbm"}
PEER_TYPES = {"FP32": "f32", "FP64": "f64"}
SUFFIX = re.compile(r"( \[clone \.kd\]| \(\.kd\)|\.kd)$")


def _expected(row: dict[str, str], point: RooflinePoint, transactions: float | None) -> bool:
    """Whether a difference from the peer is a deliberate one, in its exact size (docs/reference/deviations.md)."""
    theirs, field = float(row["value"]), row["field"]
    if point.status == "not_collected" and theirs == 0:  # it counts missing counters and times as 0
        return bool(re.search("missing|no usable timing", str(point.reason)))
    if field == "ai_hbm":  # gfx950: it takes the formula of gfx942
        return point.status == "not_collected" and "128B_sum missing" in str(point.reason)
    if field in ("ai_l1", "ai_l2"):  # it counts 64 bytes where the lines have 128
        assert point.operations is not None and transactions is not None
        return oracle.agree(row["value"], str(point.operations / (64 * transactions)))
    return False


def _rows(shared: Path, case: dict[str, str], pattern: str) -> list[dict[str, str]]:
    with gzip.open(shared / "oracle" / case["file"], "rt") as file:
        return [r for r in csv.DictReader(file) if re.match(rf"roofline\.{pattern}", r["metric_id"])]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that the recorded profiles are imported into when they are asked for."""
    return Store(tmp_path_factory.mktemp("recorded"))


def test_points_equal_those_of_rocprof_compute_but_for_its_errors(shared: Path, recorded: Store) -> None:
    compared, wrong = 0, []
    deliberate: Counter[tuple[str, str]] = Counter()
    for case in oracle.cases():
        for by, pattern in (("kernel", "kernels"), ("dispatch", "dispatches")):
            rows = _rows(shared, case, pattern)
            if not rows:
                continue
            found = scene(recorded, oracle.workload(recorded, case), by=by, limit=10)
            ranked: dict[tuple[str, str], list[RooflinePoint]] = {}
            for point in build_roofline(found, ("hbm", "l2", "vl1d"), "flop").points:
                ranked.setdefault((point.kernel, point.level), []).append(point)
            seen: Counter[tuple[str, str]] = Counter()  # equal times are ranked differently, so count per kernel
            for row in sorted(rows, key=lambda r: int(r["metric_id"].split(".")[2])):
                kernel, level = SUFFIX.sub("", row["metric"]), PEER_LEVELS[row["field"]]
                point = ranked[kernel, level][seen[kernel, row["field"]]]
                seen[kernel, row["field"]] += 1
                ours = point.performance if row["field"] == "perf" else point.intensity
                compared += 1
                if oracle.agree(row["value"], "" if ours is None else str(ours)):
                    continue
                _, sums = found.collected.groups[point.rank - 1].sums_over([f"{level}.transactions"])
                if _expected(row, point, sums.get(f"{level}.transactions")):
                    deliberate[case["gfx"], row["field"]] += 1
                else:
                    wrong.append((case["file"], row, ours, point.reason))
    print(f"{compared} values compared, {sum(deliberate.values())} differ on purpose: {dict(deliberate)}")
    assert wrong == []
    assert (compared, sum(deliberate.values())) == (636, 165)


def test_ceilings_and_ridges_equal_those_of_rocprof_compute(shared: Path, recorded: Store) -> None:
    compared, errors = 0, 0
    for case in oracle.cases():
        rows = _rows(shared, case, "ceiling")
        if not rows:
            continue
        known = scene(recorded, oracle.workload(recorded, case)).ceilings
        assert known.kind == "empirical"
        for row in rows:
            peer = row["metric_id"].rsplit(".", 1)[1]
            if row["field"] == "error":  # a missing VALU column costs it every ceiling of the type
                errors += 1
                if peer == "BF16":
                    assert known.value("matrix.bf16") and known.value("matrix.bf16") != known.value("matrix.f16")
                continue
            vector, matrix = f"valu.{PEER_TYPES[peer]}", f"matrix.{PEER_TYPES[peer]}"
            peak = max(known.value(vector) or 0.0, known.value(matrix) or 0.0)
            level = {"hbm": "hbm", "l2": "l2", "l1": "vl1d", "lds": "lds"}.get(row["metric"])
            if level:
                width = known.value(f"{level}.bw") or 0.0
                ours = {"peak": width, "x0": 0.01, "x1": peak / width, "y0": 0.01 * width, "y1": peak}
            else:
                roof = known.value({"valu": vector, "mfma": matrix}[row["metric"]]) or 0.0
                ours = {"peak": roof, "x0": roof / (known.value("lds.bw") or 0.0), "x1": 1000.0, "y0": roof, "y1": roof}
            compared += 1
            assert oracle.agree(row["value"], str(ours[row["field"]])), (case["file"], row)
    assert compared == 660 and errors > 40


def test_the_vector_copy_reads_alike_on_every_recorded_gpu(shared: Path, recorded: Store) -> None:
    for model in ("MI100", "MI200", "MI350"):
        found = scene(recorded, oracle.workload(recorded, {"workload": "vcopy", "model": model}))
        made = build_roofline(found, ("vl1d",), kind="instruction")
        assert [(w.kind, w.value) for w in made.walls] == [("memory", 16.0)], model
        assert made.points[0].transactions == 3 * 524288
