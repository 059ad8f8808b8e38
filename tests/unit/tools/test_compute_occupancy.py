"""compute_occupancy answers from numbers, workloads and code objects, and says in words what a figure leaves open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import BadArgument, BadInput, NotFound, Problem
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.eval.interventions.diagnoses import COUNTERS, TIMES
from rooflens.eval.interventions.scoring import truths
from rooflens.tests import DATA, ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tools.compute_occupancy import OccupancyResult, compute_occupancy

OBJECTS = DATA / "code_objects"
HSACO, BUNDLE = str(OBJECTS / "kernels_gfx90a.hsaco"), str(OBJECTS / "kernels_three_targets.ccob")
LAUNCH = {"vgpr": 68, "agpr": 0, "sgpr": 32, "lds_bytes": 0, "workgroup_size": 1024, "grid": 1 << 20}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def rows(result: OccupancyResult) -> list[dict[str, Any]]:
    return [dict(zip(result.kernels.columns, row, strict=True)) for row in result.kernels.rows]


def profiled(
    store: Store, launches: list[dict[str, Any]], counters: dict[str, float] | None = None, **manifest: Any
) -> Manifest:
    """A workload of the given launches, one microsecond each unless they say otherwise."""
    con = connect()
    columns = ("kernel", "vgpr", "agpr", "sgpr", "lds_bytes", "workgroup_size", "grid", "duration_ns")
    filled = [{"kernel": "k", "duration_ns": 1000, **LAUNCH, **launch} for launch in launches]
    values = ", ".join(f"({i}, {', '.join(_sql(launch[c]) for c in columns)})" for i, launch in enumerate(filled))
    table = f"SELECT * FROM (VALUES {values}) t(dispatch_id, {', '.join(columns)})"
    with store.draft() as folder:
        write_table(con, table, folder / "dispatches.parquet")
        if counters:
            named = "".join(f", {value}::DOUBLE AS {name}" for name, value in counters.items())
            write_table(con, f"SELECT dispatch_id, kernel, duration_ns::DOUBLE AS duration_ns{named} FROM ({table})",
                        folder / "counters.parquet")  # fmt: skip
        facts = {"name": "w", "format": "rocprofv3", "vendor": "amd", "arch": "gfx90a", "dispatches": len(launches),
                 "facts": {"cu_per_gpu": 104.0, "num_xcd": 1.0}, "counters": list(counters or {})}  # fmt: skip
        return store.publish(folder, Manifest.model_validate(facts | manifest))


def _sql(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


# -- numbers --------------------------------------------------------------------------------------------------------


def test_empty_slots_failing_launches_and_work_group_processors_are_told(store: Store) -> None:
    def notes(gpu: str, vgprs: int, size: int) -> str:
        return " ".join(compute_occupancy(store, gpu=gpu, vgprs=vgprs, workgroup_size=size).notes)

    assert "2 of 32 wave slots stay empty" in notes("gfx90a", 8, 320)
    assert "this launch fails" in notes("gfx90a", 512, 1024)
    assert "work-group processor" in notes("gfx1100", 8, 256)


def test_numbers_get_an_answer_in_the_words_of_the_vendor(store: Store) -> None:
    amd = compute_occupancy(store, gpu="gfx90a", vgprs=68, workgroup_size=1024)
    assert amd.bound_by is None and amd.answer is not None
    assert "vector registers) allow 16 waves per CU, 50 %. The grid is not known" in amd.answer
    assert rows(amd)[0]["sgprs"] is None and amd.limits.rows[3][:2] == ["sgprs", None], "nobody stated them"
    nvidia = compute_occupancy(store, gpu="sm_90", vgprs=68, workgroup_size=256)
    assert nvidia.answer is not None
    assert "(registers) allow" in nvidia.answer and "warps per SM" in nvidia.answer
    said = " ".join(str(cell) for row in nvidia.limits.rows for cell in row[1:])
    assert "per thread" in said and not any(word in said for word in ("wave", "work-", "CU", "SIMD"))
    assert "sgprs" not in [row[0] for row in nvidia.limits.rows]


# -- workloads ------------------------------------------------------------------------------------------------------


def test_a_workload_joins_what_is_possible_with_what_was_achieved(store: Store) -> None:
    waves = {"SQ_LEVEL_WAVES_ACCUM": 104 * 8 * 5000.0, "GRBM_GUI_ACTIVE": 5000.0}
    done = profiled(store, [{}, {"kernel": "other", "duration_ns": 500}], waves)
    found = compute_occupancy(store, workload=done.id)
    assert (found.kernel, found.waves_per_cu, found.occupancy_pct) == ("k", 16, 50)
    assert (found.achieved_waves_per_cu, found.achieved_pct) == (8, 25)
    assert [(r["kernel"], r["launches"], r["achieved_pct"]) for r in rows(found)] == [("k", 1, 25), ("other", 1, 25)]
    assert rows(found)[0]["time_pct"] == pytest.approx(100 * 2 / 3)
    assert found.next[0].tool == "compute_metrics"
    only = compute_occupancy(store, workload=done.id, kernel="#2")
    assert [r["kernel"] for r in rows(only)] == ["other"]


def test_dynamic_lds_is_added_to_what_the_profile_knows(store: Store) -> None:
    done = profiled(store, [{"lds_bytes": 512, "workgroup_size": 64}])
    assert "only static LDS" in " ".join(compute_occupancy(store, workload=done.id).notes)
    found = compute_occupancy(store, workload=done.id, dynamic_lds_bytes=16384 - 512)
    assert (found.waves_per_cu, found.limiters, rows(found)[0]["lds_bytes"]) == (4, ["lds"], 16384)
    assert "only static LDS" not in " ".join(found.notes)


@pytest.mark.parametrize(
    ("groups_per_cu", "resident", "bound_by", "helps", "says"),
    [
        (1, None, "grid", "no", "are 16 waves (50 % occupancy at most), and registers and LDS allow 16"),
        (0.5, 6.0, "grid", "no", "Only a larger grid"),
        (100, 2.0, "uneven", "doubtful", "Resources are not the limit"),
        (100, 15.0, "resources", "perhaps", "15 were resident on average"),
        (100, None, None, None, "The grid would fill them; whether they stay filled was not measured"),
        (100, 24.0, None, None, None),
    ],
)
def test_the_head_says_what_binds_and_whether_fewer_registers_help(
    store: Store,
    groups_per_cu: float,
    resident: float | None,
    bound_by: str | None,
    helps: str | None,
    says: str | None,
) -> None:
    level = {"SQ_LEVEL_WAVES_ACCUM": 104 * resident * 5000.0, "GRBM_GUI_ACTIVE": 5000.0} if resident else None
    done = profiled(store, [{"grid": int(104 * 1024 * groups_per_cu)}], level)
    found = compute_occupancy(store, workload=done.id)
    assert found.bound_by == bound_by and found.limiters == ["grid" if bound_by == "grid" else "vgprs"]
    assert ("one of the two is wrong" in " ".join(found.notes)) == (resident == 24)
    assert rows(found)[0]["limiters"] == found.limiters[0]
    limits = {row[0]: (row[-2], row[-1]) for row in found.limits.rows}
    assert limits.get("grid") == ((16 * groups_per_cu, True) if bound_by == "grid" else None)
    assert limits["vgprs"] == (16, bound_by != "grid")
    assert (says or "what keeps the others away is not known") in (found.answer or "")
    assert found.what_if.rows
    assert [dict(zip(found.what_if.columns, row, strict=True)).get("helps") for row in found.what_if.rows] == [
        helps
    ] * len(found.what_if.rows)


@pytest.mark.parametrize(
    ("arch", "launch", "agprs", "says"),
    [
        ("gfx908", {"vgpr": 64, "agpr": 64}, 0, "repeat vgprs"),
        ("gfx950", {"vgpr": 36, "agpr": 0}, 0, "half of the registers"),
        ("gfx90a", {"vgpr": 36, "agpr": None}, 0, "no column for accumulation"),
        ("gfx90a", {"vgpr": 36, "agpr": 36}, 36, "static LDS"),
    ],
)
def test_register_columns_are_read_as_each_target_has_them(
    store: Store, arch: str, launch: dict[str, Any], agprs: int, says: str
) -> None:
    found = compute_occupancy(store, workload=profiled(store, [launch], arch=arch).id)
    assert rows(found)[0]["agprs"] == agprs
    assert says in " ".join(found.notes)


def test_a_profile_without_gpu_or_registers_is_refused_unless_occupancy_was_measured(store: Store) -> None:
    done = profiled(store, [{}], arch=None)
    with pytest.raises(BadInput, match="Give gpu"):
        compute_occupancy(store, workload=done.id)
    assert compute_occupancy(store, workload=done.id, gpu="gfx942").waves_per_cu == 16
    bare = {"vgpr": None}
    with pytest.raises(BadInput, match="registers"):
        compute_occupancy(store, workload=profiled(store, [bare]).id)
    waves = {"SQ_LEVEL_WAVES_ACCUM": 104 * 8 * 5000.0, "GRBM_GUI_ACTIVE": 5000.0}
    found = compute_occupancy(store, workload=profiled(store, [bare], waves).id)
    assert (found.achieved_pct, found.occupancy_pct) == (25, None)
    assert "registers" in rows(found)[0]["reason"]


# -- code objects ---------------------------------------------------------------------------------------------------


def test_a_code_object_gives_registers_spills_and_occupancy_per_kernel(store: Store) -> None:
    found = compute_occupancy(store, code_object=HSACO)
    table = {r["kernel"]: r for r in rows(found)}
    assert (table["wide"]["max_workgroup_size"], table["wide"]["waves_per_cu"]) == (1024, 16)
    assert (table["spilling"]["vgpr_spills"], table["spilling"]["scratch_bytes"]) == (26, 108)
    assert (table["accumulating"]["vgprs"], table["accumulating"]["agprs"]) == (32, 40)
    text = " ".join(found.notes)
    assert "1 of 5 kernels spill" in text and "dynamic_lds_bytes" in text and "maximum that a kernel" in text


def test_one_kernel_of_a_code_object_with_the_launch_as_it_is(store: Store) -> None:
    found = compute_occupancy(store, code_object=HSACO, kernel="^wide$", workgroup_size=256, dynamic_lds_bytes=16384)
    assert (found.kernel, found.waves_per_cu, found.kernels.total_rows) == ("wide", 16, 1)
    assert set(found.limiters) == {"vgprs", "lds"}
    assert compute_occupancy(store, code_object=HSACO, kernel="#2").kernel == "wide"
    too_large = compute_occupancy(store, code_object=HSACO, kernel="reverse", workgroup_size=1024)
    assert "compiled for fewer than 1024" in " ".join(too_large.notes)


def test_of_several_targets_all_are_listed_or_one_is_chosen(store: Store) -> None:
    assert {r["gpu"] for r in rows(compute_occupancy(store, code_object=BUNDLE))} == {"gfx908", "gfx90a", "gfx942"}
    chosen = compute_occupancy(store, code_object=BUNDLE, gpu="gfx942")
    assert chosen.gpu == "gfx942" and {r["gpu"] for r in rows(chosen)} == {"gfx942"}
    with pytest.raises(BadArgument, match="gfx908, gfx90a, gfx942"):
        compute_occupancy(store, code_object=BUNDLE, gpu="gfx950")


def test_code_for_an_unknown_target_still_shows_registers_and_spills(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "other.hsaco"
    path.write_bytes(Path(HSACO).read_bytes().replace(b"amdhsa--gfx90a", b"amdhsa--gfx999"))
    found = compute_occupancy(store, code_object=str(path), kernel="spilling")
    assert (found.gpu, found.occupancy_pct, rows(found)[0]["vgpr_spills"]) == ("gfx999", None, 26)
    assert "gfx90a" in rows(found)[0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"code_object": "nowhere/k.hsaco"}, NotFound, "does not exist"),
        ({"code_object": str(OBJECTS / "kernels_gfx90a.hsac")}, NotFound, "kernels_gfx90a.hsaco"),
        ({"code_object": str(OBJECTS)}, BadArgument, "a folder"),
        ({"code_object": "/dev/null"}, BadArgument, "not a regular file"),
        ({"code_object": "a\0b"}, Problem, "cannot be read|does not exist"),
        ({"code_object": __file__}, BadInput, "not a GPU code object"),
        ({"code_object": HSACO, "kernel": "nothing"}, NotFound, "#1"),
        ({"code_object": HSACO, "kernel": "#9"}, NotFound, "#1 to #5"),
        ({"code_object": HSACO, "kernel": "("}, BadArgument, "not a valid regular expression"),
        ({"code_object": HSACO, "vgprs": 8}, BadArgument, "vgprs cannot be given"),
        ({"code_object": HSACO, "workload": "latest"}, BadArgument, "exclude"),
        ({"gpu": "gfx90a", "vgprs": 8, "workgroup_size": 64, "kernel": "x"}, BadArgument, "needs a workload"),
        ({"gpu": "gfx90a", "vgprs": 8}, BadArgument, "Missing: workgroup_size"),
        ({}, BadArgument, "Missing: gpu, vgprs, workgroup_size"),
        ({"gpu": "gfx90a", "vgprs": 8, "workgroup_size": 0}, BadArgument, "1 to 1024"),
    ],
)  # fmt: skip
def test_mistakes_are_answered_with_what_is_allowed(
    store: Store, arguments: dict[str, Any], kind: type[Problem], says: str
) -> None:
    with pytest.raises(kind, match=says):
        compute_occupancy(store, **arguments)


def test_other_resources_of_a_kernel_are_answered_with_what_they_could_gain(tmp_path: Path) -> None:
    """The kernel has 24 KiB of LDS; with 20 a third work-group fits on a compute unit."""
    made = Store(tmp_path)
    stored(made, ROOT / "server" / "samples" / "clover", "clover")
    changed = compute_occupancy(made, workload="clover", lds_bytes=20480)
    assert [compute_occupancy(made, workload="clover").waves_per_cu, changed.waves_per_cu] == [8, 12]
    told = "With lds_bytes 20480 instead of 24576, resources allow 12 waves per CU instead of 8. What that gains is"
    assert (changed.answer or "").startswith(f"{told} unknown")
    more = compute_occupancy(made, workload="clover", lds_bytes=30000)
    assert "No gain is expected: there would not be more" in (more.answer or "")


def test_less_shared_memory_of_a_counted_kernel_has_a_bound_and_an_expected_gain(tmp_path: Path) -> None:
    made = Store(tmp_path)
    stored(made, COUNTERS, "interventions")
    kernel = next(t.kernel for t in truths(TIMES) if any(m.what == "less_lds" and m.gain > 1.3 for m in t.measured))
    found = compute_occupancy(made, workload="interventions", kernel=f"^{kernel}$", lds_bytes=8192)
    gain = re.search(r"at most ([\d.]+) times as fast, expected (\d+(?:\.\d+)?)", found.answer or "")
    measured = next(m.gain for t in truths(TIMES) if t.kernel == kernel for m in t.measured if m.what == "less_lds")
    assert gain and float(gain[1]) >= measured / 1.1 and 1 < float(gain[2]) <= float(gain[1])
