"""Occupancy equals clang's in compiler mode and NVIDIA's on NVIDIA; hardware is never above; what_if keeps its word."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.occupancy import Occupancy, occupancy
from rooflens.analysis.occupancy.rule import rule_of
from rooflens.tests import DATA

NVIDIA = ("sm_70", "sm_80", "sm_90")
UNIFIED = ("gfx90a", "gfx942", "gfx950")
AMD = (
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151",
    "gfx1152", "gfx1200", "gfx1201",
)  # fmt: skip


class Row(NamedTuple):
    """One kernel as clang reports it: registers, static LDS in bytes, work-group size, waves per SIMD."""

    arch: str
    vgpr: int
    agpr: int
    sgpr: int
    lds: int
    wgsize: int
    occupancy: int


def rows_of(path: Path) -> list[Row]:
    with path.open() as file:
        return [Row(r["arch"], *(int(r[name]) for name in Row._fields[1:])) for r in csv.DictReader(file)]


def of(row: Row, mode: str, **more: Any) -> Occupancy:
    return occupancy(
        row.arch, vgprs=row.vgpr, agprs=row.agpr, sgprs=row.sgpr, lds_bytes=row.lds, workgroup_size=row.wgsize,
        mode=mode, **more,
    )  # fmt: skip


def differing(rows: Sequence[Row], **more: Any) -> list[tuple[Row, float]]:
    return [(r, w) for r in rows if (w := of(r, "compiler", **more).waves_per_simd) != r.occupancy]


def above(rows: Sequence[Row], **more: Any) -> list[Row]:
    return [r for r in rows if of(r, "hardware", **more).waves_per_cu > of(r, "compiler", **more).waves_per_cu]


# -- the compiler's rule ------------------------------------------------------------------------------------------


def test_compiler_mode_equals_clang_on_the_shipped_table() -> None:
    rows = rows_of(DATA / "occupancy_clang22.csv")
    assert len(rows) == 84 and {r.arch for r in rows} == set(AMD)
    assert differing(rows) == []
    assert above(rows) == []


# -- the hardware's rule ------------------------------------------------------------------------------------------


def test_hardware_places_whole_work_groups() -> None:
    hardware = occupancy("gfx90a", vgprs=68, workgroup_size=1024)
    assert (hardware.waves_per_cu, hardware.workgroups_per_cu, hardware.limiters) == (16, 1, ("vgprs",))
    assert occupancy("gfx90a", vgprs=68, workgroup_size=1024, mode="compiler").waves_per_simd == 7


@pytest.mark.parametrize(("target", "block"), [("gfx90a", 512), ("gfx950", 1280), ("gfx1100", 1024)])
def test_hardware_gives_lds_in_blocks_and_dynamic_lds_counts(target: str, block: int) -> None:
    whole = rule_of(target).lds // block
    groups = next(n for n in range(8, 1, -1) if whole % n)
    fits = whole // groups * block
    assert occupancy(target, vgprs=8, lds_bytes=fits, workgroup_size=64).workgroups_per_cu == groups
    assert (
        occupancy(target, vgprs=8, lds_bytes=fits, dynamic_lds_bytes=1, workgroup_size=64).workgroups_per_cu
        == groups - 1
    )
    assert (
        occupancy(target, vgprs=8, lds_bytes=1, dynamic_lds_bytes=fits - 1, workgroup_size=64).workgroups_per_cu
        == groups
    )


def test_two_limiters_are_both_named_and_shrunk_together() -> None:
    found = occupancy("gfx90a", vgprs=128, lds_bytes=16384, workgroup_size=256)
    assert found.waves_per_cu == 16 and set(found.limiters) == {"vgprs", "lds"}
    assert [{c.argument: c.to for c in w.changes} for w in found.what_if] == [{"vgprs": 96, "lds_bytes": 12800}]


def test_rdna_counts_per_work_group_processor() -> None:
    assert occupancy("gfx1100", vgprs=16, workgroup_size=256).unit.startswith("work-group processor")
    assert occupancy("gfx1100", vgprs=16, workgroup_size=256).max_waves_per_cu == 64
    alone = occupancy("gfx1100", vgprs=16, workgroup_size=256, cu_mode=True)
    assert (alone.max_waves_per_cu, alone.unit) == (32, "compute unit (cumode)")


# -- NVIDIA: values of the CUDA occupancy calculator -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "registers", "shared_bytes", "threads", "warps", "limiter"),
    [
        ("sm_70", 76, 24576, 256, 24, "vgprs"),  # 3 blocks of 80 registers
        ("sm_70", 32, 24577, 256, 24, "lds"),  # blocks of 256 bytes
        ("sm_80", 32, 0, 256, 64, "wave_slots"),
        ("sm_80", 33, 0, 256, 48, "vgprs"),  # 40 registers: 12 warps a sub-partition
        ("sm_80", 32, 0, 32, 32, "workgroup_slots"),
        ("sm_80", 32, 49152, 256, 24, "lds"),  # 1 KiB of the driver in each block
        ("sm_90", 65, 0, 1024, 0, "vgprs"),  # too many resources requested for launch
        ("sm_90", 255, 0, 32, 8, "vgprs"),
        ("sm_90", 32, 227 * 1024, 64, 2, "lds"),
    ],
)
def test_nvidia_follows_the_cuda_occupancy_calculator(
    gpu: str, registers: int, shared_bytes: int, threads: int, warps: int, limiter: str
) -> None:
    found = occupancy(gpu, vgprs=registers, lds_bytes=shared_bytes, workgroup_size=threads)
    assert (found.waves_per_cu, found.limiters, found.max_waves_per_cu) == (warps, (limiter,), 64)
    other = occupancy(gpu, vgprs=registers, lds_bytes=shared_bytes, workgroup_size=threads, mode="compiler")
    assert other.waves_per_cu == warps


@pytest.mark.parametrize("name", ["h200_labelled_raw.csv", "small_raw.csv"])
def test_nvidia_equals_what_nsight_compute_reports_on_an_h200(name: str, shared: Path) -> None:
    if not (shared / "ncu" / name).exists():
        pytest.skip("needs ../shared/ncu, which the project does not ship")
    with (shared / "ncu" / name).open() as file:
        units, *rows = csv.DictReader(file)
    for row in rows:

        def number(name: str, row: dict[str, str] = row) -> float:
            return float(row[name].replace(",", "")) * (1000 if units[name].startswith("Kbyte") else 1)

        found = occupancy(
            "sm_90",
            vgprs=int(number("launch__registers_per_thread")),
            lds_bytes=round(number("launch__shared_mem_per_block_static")),
            dynamic_lds_bytes=round(number("launch__shared_mem_per_block_dynamic")),
            workgroup_size=int(number("launch__block_size")),
        )
        assert found.waves_per_cu == number("sm__maximum_warps_avg_per_active_cycle")
        assert found.limits["vgprs"] // found.waves_per_workgroup == number("launch__occupancy_limit_registers")
        assert found.allocated_vgprs == number("launch__registers_per_thread_allocated")


# -- what_if ------------------------------------------------------------------------------------------------------


@st.composite
def launches(draw: st.DrawFn) -> dict[str, Any]:
    gpu = draw(st.sampled_from([*AMD, *NVIDIA]))
    rule = rule_of(gpu)
    agprs = draw(st.integers(0, 256)) if rule.agprs != "none" else 0
    static = draw(st.integers(0, rule.lds_per_group))
    return {
        "gpu": gpu,
        "vgprs": draw(st.integers(0, 256 if gpu in UNIFIED else rule.max_vgprs)),
        "agprs": agprs,
        "sgprs": draw(st.integers(0, 128)) if gpu in AMD else 0,
        "lds_bytes": static,
        "dynamic_lds_bytes": draw(st.sampled_from([0, draw(st.integers(0, rule.lds_per_group - static))])),
        "workgroup_size": draw(st.integers(1, 1024)),
        "mode": draw(st.sampled_from(["hardware", "compiler"])),
    }


@settings(max_examples=40, deadline=None)
@given(launches())
def test_every_what_if_gives_what_it_promises_and_asks_for_no_more_than_needed(launch: dict[str, Any]) -> None:
    now = occupancy(**launch)
    for option in now.what_if:
        changed = occupancy(**launch | {c.argument: c.to for c in option.changes})
        assert changed.waves_per_cu == option.waves_per_cu > now.waves_per_cu
        assert changed.waves_per_simd == option.waves_per_simd
        assert changed.occupancy_pct == option.occupancy_pct
        if len(option.changes) == 1 and (change := option.changes[0]).argument != "workgroup_size":
            assert change.less > 0
            almost = launch | {change.argument: change.to + 1}
            assert occupancy(**almost).waves_per_cu <= now.waves_per_cu


@settings(max_examples=40, deadline=None)
@given(launches())
def test_there_is_a_what_if_wherever_using_nothing_would_help(launch: dict[str, Any]) -> None:
    now = occupancy(**launch)
    nothing = dict.fromkeys(("vgprs", "agprs", "sgprs", "lds_bytes", "dynamic_lds_bytes"), 0)
    assert bool(now.what_if) or occupancy(**launch | nothing).waves_per_cu == now.waves_per_cu


@settings(max_examples=40, deadline=None)
@given(launches())
def test_hardware_is_never_above_the_compiler(launch: dict[str, Any]) -> None:
    hardware = occupancy(**launch | {"mode": "hardware"})
    compiler = occupancy(**launch | {"mode": "compiler"})
    assert hardware.waves_per_cu <= compiler.waves_per_cu
    assert hardware.waves_per_cu % hardware.waves_per_workgroup == 0


# -- published figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "kernel", "waves", "pct"),
    [  # the corrected figures of the EmPRiSM sprint report (Pawsey Centre and Fluid Numerics), and those of a V100
        ("gfx908", {"vgprs": 52}, 16, 40),
        ("gfx90a", {"vgprs": 64}, 32, 100),
        ("gfx908", {"vgprs": 8, "sgprs": 64}, 40, 100),
        ("gfx908", {"vgprs": 24, "lds_bytes": 24576}, 8, 20),
        ("gfx90a", {"vgprs": 24, "lds_bytes": 24576}, 8, 25),
        ("sm_70", {"vgprs": 76, "lds_bytes": 24576}, 24, 37.5),
        ("sm_70", {"vgprs": 0, "lds_bytes": 24576}, 32, 50),
    ],
)
def test_published_occupancies_are_reproduced(gpu: str, kernel: dict[str, int], waves: int, pct: float) -> None:
    found = occupancy(gpu, **kernel, workgroup_size=256)
    assert (found.waves_per_cu, found.occupancy_pct) == (waves, pct)


@pytest.mark.parametrize(("gpu", "most"), [("gfx908", 24), ("gfx90a", 64)])
def test_the_most_registers_of_full_occupancy_are_the_published_ones(gpu: str, most: int) -> None:
    full = [n for n in range(1, 257) if occupancy(gpu, vgprs=n, workgroup_size=64).occupancy_pct == 100]
    assert max(full) == most


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vgprs": 513}, "0 to 512"),
        ({"vgprs": 300, "agprs": 300}, r"512 registers.*vgpr_count"),
        ({"vgprs": 1.5}, "not an integer"),
        ({"sgprs": 129}, "0 to 128"),
        ({"lds_bytes": 65537}, "0 to 65536"),
        ({"lds_bytes": 60000, "dynamic_lds_bytes": 6000}, "0 to 5536"),
        ({"workgroup_size": 0}, "1 to 1024"),
        ({"gpu": "gfx906", "agprs": 4}, "only 0 is allowed"),
        ({"gpu": "sm_90", "sgprs": 4}, "only 0 is allowed"),
        ({"gpu": "sm_90", "vgprs": 256}, "0 to 255"),
        ({"mode": "best"}, "hardware or compiler"),
        ({"wave_size": 32}, "allowed: 64"),
        ({"cu_mode": True}, "no choice"),
    ],
)
def test_impossible_numbers_are_refused_with_what_is_allowed(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        occupancy(**{"gpu": "gfx90a", "vgprs": 32, "workgroup_size": 256} | changes)


def test_an_unknown_gpu_names_near_ones() -> None:
    with pytest.raises(NotFound, match="gfx90a"):
        occupancy("gfx90b", vgprs=32, workgroup_size=256)
