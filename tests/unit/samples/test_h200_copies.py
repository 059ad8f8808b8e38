"""A recording of every way of copying on an H200: each way's bytes are where rooflens says they are, to within 2 %."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from rooflens.analysis.engine.evaluation import Figure
from rooflens.analysis.plot.roofline_content import RooflineSubject, of_kernels
from rooflens.analysis.rooflines import inputs as scenes
from rooflens.analysis.rooflines import roofline
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.figures import evaluate
from rooflens.tests.support.recordings import stored
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile

RECORDING = ROOT / "server" / "samples" / "h200_copies" / "copies.csv.gz"
N = 4 * 33554432
"""Bytes of the array that most of the kernels copy."""
RING = 4 * 1024 * 2048 * 256
"""Bytes that the blocks of all clusters exchange: a word of each thread, 256 times."""
UPDATED = 4 * 10000
"""Bytes of the counts that the atomics update."""
TILES = 2 * 2 * 2048**3 // 64
"""Bytes of both tiles that the blocks of a product of 2048 x 2048 matrices fetch, and that its tensor cores read."""

# Kernel -> bytes by way; what is not named is zero. Reads of other blocks are counted in sectors: a warp goes on by one
# word in each turn, and in seven of eight it begins inside a sector and touches one more.
MISALIGNED = RING * (7 * 5 + 4) // (8 * 4)
COPIED = {
    "async_copy<4, 0, 1>": {"async": N}, "async_copy<8, 0, 1>": {"async": N}, "async_copy<16, 0, 1>": {"async": N},
    "async_copy<16, 1, 1>": {"async": N}, "async_copy<4, 0, 8>": {"async": N}, "copy_two_ways": {"async": 4 * N},
    "bulk_copy": {"bulk_read": N, "bulk_write": N}, "tensor_map_copy": {"bulk_read": N, "bulk_write": N},
    "bulk_read": {"bulk_read": N}, "bulk_write": {"bulk_write": N}, "bulk_reduce": {"bulk_write": N},
    "bulk_multicast": {"bulk_read": 2 * N, "bulk_write": N},
    "cluster_read": {"cluster": MISALIGNED}, "cluster_atomic": {"cluster": RING},
    "matrix_groups": {"bulk_read": TILES, "tensor": TILES}, "update_only": {}, "update_fetch": {},
}  # fmt: skip
LEVEL_NAMES = ("hbm", "l2", "vl1d", "lds")
WAYS = ("async_copy", "bulk_read", "bulk_write", "cluster", "tensor")
# Bytes through L1 and through the data stage of shared memory; None where most go past the level.
LEVELS: dict[str, dict[str, float | None]] = {
    "async_copy<4, 0, 1>": {"vl1d": 2 * N, "lds": 2 * N}, "async_copy<8, 0, 1>": {"vl1d": 2 * N, "lds": 2 * N},
    "async_copy<16, 0, 1>": {"vl1d": 2 * N, "lds": 2 * N}, "async_copy<16, 1, 1>": {"vl1d": 2 * N, "lds": N},
    "async_copy<4, 0, 8>": {"vl1d": 9 * N, "lds": 2 * N}, "copy_two_ways": {"vl1d": 10 * N, "lds": 4 * N},
    "bulk_copy": {"vl1d": None, "lds": None}, "tensor_map_copy": {"vl1d": None, "lds": None},
    "bulk_multicast": {"vl1d": None, "lds": None}, "bulk_reduce": {"vl1d": None, "lds": None},
    "bulk_read": {"vl1d": N, "lds": N}, "bulk_write": {"vl1d": N, "lds": N},
    "cluster_read": {"lds": MISALIGNED}, "cluster_atomic": {"lds": RING}, "matrix_groups": {"vl1d": None, "lds": TILES},
    "update_only": {"vl1d": UPDATED}, "update_fetch": {"vl1d": 2 * UPDATED},
}  # fmt: skip
# Coalescing in percent and sectors per load; None where there are no loads or stores of lanes.
COALESCED = {
    "async_copy<4, 0, 1>": (100, 4), "async_copy<8, 0, 1>": (100, 8), "async_copy<16, 0, 1>": (100, 16),
    "async_copy<16, 1, 1>": (100, 16), "async_copy<4, 0, 8>": (100 * 2 / 9, 32), "copy_two_ways": (100, 10),
    "bulk_copy": (None, None), "tensor_map_copy": (None, None), "bulk_multicast": (None, None),
    "bulk_reduce": (None, None), "bulk_read": (100, None), "bulk_write": (100, 16), "cluster_read": (100, 4),
    "update_only": (None, None), "update_fetch": (100, None),
}  # fmt: skip


def short(kernel: str | None) -> str:
    return (kernel or "").removeprefix("void ").split("(")[0]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("copies"))
    stored(store, RECORDING, "copies")
    return store


@pytest.fixture(scope="module")
def figures(store: Store) -> dict[tuple[str, str], Figure]:
    wanted = [f"lds.{way}_bytes" for way in WAYS] + ["vl1d.coalescing_pct", "vl1d.sectors_per_load"]
    found = evaluate(store, "copies", wanted, by_kernel=True, quartiles=False)
    return {(short(f.kernel), f.name): f for f in found}


@pytest.fixture(scope="module")
def points(store: Store) -> dict[tuple[str, str], dict[str, object]]:
    table = compute_roofline(store, "copies", detail="full", limit=100).points
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {(short(str(row["kernel"])), str(row["level"])): row for row in rows}


def test_each_way_of_copying_has_its_bytes_and_no_other_way_has_any(figures: dict[tuple[str, str], Figure]) -> None:
    for kernel, copied in COPIED.items():
        for way in WAYS:
            expected = pytest.approx(copied.get(way.removesuffix("_copy"), 0), rel=0.02)
            assert figures[kernel, f"lds.{way}_bytes"].value == expected, (kernel, way)


def test_a_level_has_the_bytes_that_pass_it_or_is_bypassed(points: dict[tuple[str, str], dict[str, object]]) -> None:
    for kernel, levels in LEVELS.items():
        for level, expected in levels.items():
            point = points[kernel, level]
            assert (point["status"] == "bypassed") == (expected is None), (kernel, level)
            if expected is None:
                assert (point["intensity"], point["attainable"]) == (None, None), (kernel, level)
            else:
                assert point["bytes"] == pytest.approx(expected, rel=0.02), (kernel, level)


def test_coalescing_is_that_of_the_source_whatever_the_way(figures: dict[tuple[str, str], Figure]) -> None:
    for kernel, coalesced in COALESCED.items():
        for name, expected in zip(("vl1d.coalescing_pct", "vl1d.sectors_per_load"), coalesced, strict=True):
            figure = figures[kernel, name]
            assert figure.value == (expected if expected is None else pytest.approx(expected, rel=0.02)), (kernel, name)
            assert expected is not None or (figure.reason and figure.reason.code == "nothing_there"), (kernel, name)


def test_bytes_that_no_counter_tells_apart_are_not_supported(figures: dict[tuple[str, str], Figure]) -> None:
    figure = figures["cluster_atomic", "vl1d.coalescing_pct"]
    assert (figure.value, figure.status) == (None, "not_supported")
    assert figure.reason is not None
    assert figure.reason.code == "unseen"


def test_only_the_kernel_that_scatters_is_said_to_scatter(store: Store) -> None:
    found = diagnose_bottleneck(store, "copies", top_n=50, detail="full")
    evidence = {(short(k.kernel), e.metric) for k in found.kernels for f in k.findings for e in f.evidence}
    assert {kernel for kernel, metric in evidence if metric == "vl1d.coalescing_pct"} == {"async_copy<4, 0, 8>"}


def test_a_bypassed_level_is_left_out_of_the_picture_and_named(store: Store) -> None:
    with Workload.open(store, "copies") as workload:
        found = scenes.prepare_inputs(
            workload, scenes.RooflineRequest("bulk_read|tensor_map_copy|matrix_groups"), "theoretical"
        )
    picture, _ = of_kernels(roofline.build_roofline(found, LEVEL_NAMES), RooflineSubject("copies", {}))
    names = {kernel.number: short(kernel.name) for kernel in picture.kernels}
    drawn = {(names[dot.kernel], dot.level) for dot in picture.dots if dot.is_drawable}
    assert {level for kernel, level in drawn if kernel == "matrix_groups"} == {"hbm", "l2", "lds"}
    assert any("bypass this level" in statement for statement in picture.statements)
    assert max(dot.intensity or 0 for dot in picture.dots) < 2000


def test_a_profile_that_cannot_tell_copies_has_no_coalescing_for_them(tmp_path: Path) -> None:
    """As profiles were taken before: bytes of loads without those of cp.async, whose sectors are in those of loads."""
    left_out = ("smsp__sass_data_bytes_mem_global.sum", "l1tex__t_sectors_pipe_lsu_mem_dshared", "_gmma.sum")
    text = gzip.decompress(RECORDING.read_bytes()).decode()
    rows = [row for row in csv.reader(io.StringIO(text)) if not any(cell.startswith("cluster_") for cell in row)]
    kept = [i for i, name in enumerate(rows[0]) if not any(part in name for part in left_out)]
    page = tmp_path / "older.csv"
    with page.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([row[i] for i in kept] for row in rows)
    store = Store(tmp_path / "store")
    import_profile(store, str(page), name="older")
    found = {
        (short(f.kernel), f.name): f
        for f in evaluate(store, "older", ["vl1d.coalescing_pct", "lds.bw_gbs"], by_kernel=True, quartiles=False)
    }
    for kernel, name in (("async_copy<16, 0, 1>", "vl1d.coalescing_pct"), ("matrix_groups", "lds.bw_gbs")):
        figure = found[kernel, name]
        assert (figure.value, figure.status) == (None, "not_supported"), kernel
        assert figure.reason is not None
        assert figure.reason.code == "unseen"
    assert found["bulk_write", "vl1d.coalescing_pct"].value == pytest.approx(100)
    (together,) = evaluate(store, "older", ["vl1d.coalescing_pct"], quartiles=False)
    assert together.value is not None
    assert together.reason is not None
    assert (together.status, together.reason.code) == ("ok", "caveat")
    points = compute_roofline(store, "older", kernel="matrix_groups").points
    levels = {row[points.columns.index("level")]: row[points.columns.index("status")] for row in points.rows}
    assert levels["lds"] == "not_supported"
