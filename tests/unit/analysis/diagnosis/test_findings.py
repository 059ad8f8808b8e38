"""The diagnosis against kernels whose bottleneck is known, and against profiles from which counters were taken away."""

from __future__ import annotations

import csv
import gzip
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rooflens.analysis.base import database
from rooflens.analysis.diagnosis import evidence
from rooflens.analysis.diagnosis.evidence import gather
from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.diagnosis.kernel_figures import Case, DiagnosisSubject
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tools.answers.verdict_text import kernel_sentence
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.import_profile import import_profile

SAMPLES = ROOT / "server" / "samples"
RECORDING = SAMPLES / "h200_kernels" / "kernels.csv.gz"
LABELS = {
    row["function"]: row["limit"].split("|")
    for row in csv.DictReader((ROOT / "tests" / "data" / "h200_kernels.csv").read_text().splitlines())
}
# Kernels of PyTorch 2.11 and of the CUDA libraries under it, each operation once on an H200 (Nsight Compute 2025.3.1,
# set full, 20 November 2026), with the columns that metrics read. The labels are what the operation must be limited by.
FRAMEWORKS = list(csv.DictReader((ROOT / "tests" / "data" / "h200_frameworks_stated.csv").read_text().splitlines()))


def function(kernel: str) -> str:
    return kernel.replace("void ", "").replace("(int)", "").split("(")[0]


def diagnosed(store: Store, manifest: Manifest) -> dict[str, Diagnosis]:
    return {function(d.kernel): d for d in diagnose(Workload(store, manifest))[0]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("diagnosis"))
    stored(store, RECORDING, "h200")
    stored(store, ROOT / "tests" / "data" / "h200_frameworks.csv.gz", "frameworks")
    for name in ("yax_before", "yax_after"):
        stored(store, SAMPLES / name, name)
    return store


@pytest.fixture(scope="module")
def h200(store: Store) -> dict[str, Diagnosis]:
    return diagnosed(store, store.resolve("h200"))


@pytest.fixture(scope="module")
def recorded(store: Store, shared: Path) -> Store:
    """The store with profiles of the shared folder added."""
    stored(store, shared / "ncu" / "h200_labelled_raw.csv", "labelled")
    stored(store, shared / "ncu" / "small_raw.csv", "small")
    for case, model in (("vcopy", "MI200"), ("join_type_grid", "MI300A_A1"), ("multikernel", "MI200")):
        stored(store, shared / "workloads" / case / model, f"{case}_{model}")
    return store


def test_kernels_of_the_example_program_get_the_right_subsystem_first(h200: dict[str, Diagnosis]) -> None:
    for kernel, limits in LABELS.items():
        verdict = h200[kernel].verdict
        assert verdict.subsystem in limits, kernel
        assert verdict.confidence >= evidence.CONFIDENT, kernel


def test_kernels_of_frameworks_get_a_right_subsystem_first(store: Store) -> None:
    found = {one.kernel: one.verdict for one in diagnose(Workload(store, store.resolve("frameworks")))[0]}
    for row in FRAMEWORKS:
        (verdict,) = [verdict for kernel, verdict in found.items() if re.search(row["kernel"], kernel)]
        assert verdict.subsystem in row["limit"].split("|"), (row["kernel"], verdict)


def test_labelled_kernels_get_the_right_subsystem_first(recorded: Store, shared: Path) -> None:
    found = diagnosed(recorded, recorded.resolve("labelled"))
    rows = list(csv.DictReader((shared / "ncu" / "labels.csv").read_text().splitlines()))
    assert len(rows) == 17
    for row in rows:
        verdict = found[row["kernel"]].verdict
        assert verdict.subsystem in row["acceptable_labels"].split("|"), row["kernel"]
        assert verdict.confidence >= evidence.CONFIDENT, row["kernel"]


def test_memory_is_held_against_the_data_sheet_where_the_profile_contradicts_it(recorded: Store) -> None:
    """This profile of an MI300A states 96 of its 128 channels: 68.7 % of what they carry, 46 % of its bandwidth."""
    (one,) = diagnose(Workload(recorded, recorded.resolve("join_type_grid_MI300A_A1")))[0]
    memory = next(load for load in one.units if load.unit == "hbm")
    assert memory.work_pct == pytest.approx(46.4, abs=0.1)
    assert memory.pct == pytest.approx(46.368 / 0.9, abs=0.1) and not memory.is_at_limit
    assert (one.verdict.subsystem, one.verdict.bound) == ("hbm", "latency")
    (note,) = [n for n in compute_metrics(recorded, "join_type_grid_MI300A_A1", ["hbm.bw_gbs"]).notes if "sheet" in n]
    assert "num_hbm_channels = 96, the data sheet of AMD Instinct MI300A 128" in note
    (roofline,) = [n for n in compute_roofline(recorded, "join_type_grid_MI300A_A1").notes if "sheet" in n]
    assert roofline.endswith("AMD Instinct MI300A 128; the data sheet is used.")


READS: dict[str, tuple[int, int, int, str]] = {
    "both_arrays_are_local": (131_072, 131_072, 1, "hbm"),
    "the_array_read_lies_in_the_host": (131_072, 0, 3, "fabric"),
    "faster_than_any_link_is_a_counter_that_did_not_count": (131_072, 0, 1, "hbm"),
    "only_the_arguments_of_a_fill_lie_in_the_host": (64, 0, 1, "latency"),
}
"""Kernel -> reads of L2, those of them that are local, a factor of its time, and what limits it."""


def test_reads_from_the_host_are_the_limit_where_they_are_a_part_of_all_bytes(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(shared / "workloads" / "vcopy" / "MI200", folder)
    with (folder / "pmc_perf.csv").open(newline="") as text:
        launches = list(csv.DictReader(text))
    made: list[dict[str, object]] = []
    for name, (reads, local, longer, _) in READS.items():
        counted = {"TCC_EA_RDREQ_sum": reads, "TCC_EA_RDREQ_DRAM_sum": local, "TCC_EA_RDREQ_32B_sum": 0}
        for launch in launches:
            start, end = int(launch["Start_Timestamp"]), int(launch["End_Timestamp"])
            stated = {"Kernel_Name": name, "Dispatch_ID": len(made), "End_Timestamp": start + longer * (end - start)}
            made.append({**launch, **counted, **stated})
    with (folder / "pmc_perf.csv").open("w", newline="") as text:
        out = csv.DictWriter(text, [name for name in launches[0] if "[" not in name], extrasaction="ignore")
        out.writeheader()
        out.writerows(made)
    store = Store(tmp_path / "store")
    import_profile(store, str(folder), name="copy")
    found = {one.kernel: one.verdict.subsystem for one in diagnose(Workload(store, store.resolve("copy")))[0]}
    assert found == {name: subsystem for name, (*_, subsystem) in READS.items()}


def test_the_faulty_version_is_not_called_a_memory_limit(store: Store) -> None:
    (one,) = diagnose(Workload(store, store.resolve("yax_after")))[0]
    assert one.verdict.subsystem == "unknown"


def test_figures_that_cannot_be_decide_nothing(recorded: Store) -> None:
    """This profile repeats one value in all rows: 40,000 % of the bandwidth."""
    found = diagnose(Workload(recorded, recorded.resolve("multikernel_MI200")))[0]
    wrong = [d for d in found if any(load.status == "impossible" for load in d.units)]
    assert len(wrong) == len(found) == 7
    for one in wrong:
        assert one.verdict.confidence < evidence.CONFIDENT and one.verdict.bound == "unknown"
        assert one.verdict.subsystem not in ("hbm", "fabric"), "only their traffic says that they use memory"
        assert one.verdict.own_traffic is None
        assert all(f.speedup_bound is None and f.then is None for f in one.findings)
        assert not [e for f in one.findings for e in [*f.evidence, *f.contradicting] if e.metric == "load.hbm"]
        assert any(
            s.startswith("Load of device memory (load.hbm): ") and "one value in all dispatches" in s
            for s in one.undecided
        )
        assert not one.next_counters, "everything was collected"


@pytest.mark.parametrize(("pct", "status", "met"), [(103.0, "suspect", True), (346.0, "impossible", None)])
def test_evidence_above_its_whole_keeps_its_value_and_says_why(pct: float, status: str, met: bool | None) -> None:
    subject = DiagnosisSubject(1, "1", "k", None, 1, {}, {}, None)
    usable = pct if met else None
    case = Case("w", "sm_90", subject, {"wait.data": usable}, frozenset(), None, {"wait.data": pct})
    (read,) = gather(case, ["wait.data >= 40"])
    assert (read.value, read.status, read.met) == (pct, status, met)
    assert read.reason is not None and f"{pct:.4g} % of its limit" in str(read.reason)
    assert case.display_values["wait.data"] == pct


def test_identical_launches_give_the_same_verdict_as_one(h200: dict[str, Diagnosis], tmp_path: Path) -> None:
    lines = gzip.decompress(RECORDING.read_bytes()).decode().splitlines(keepends=True)
    rows = [f'"{i}"{line[line.index(",") :]}' for i, line in enumerate(lines[2:10] * 2)]
    path = tmp_path / "many.csv"
    path.write_text("".join([*lines[:2], *rows]))
    store = Store(tmp_path / "store")
    import_profile(store, str(path), name="twice")
    twice = diagnosed(store, store.resolve("twice"))
    assert len(twice) == 8
    for name, many in twice.items():
        one = h200[name]
        assert many.launches == 2 * one.launches
        assert many.verdict.subsystem == one.verdict.subsystem
        assert many.verdict.confidence == one.verdict.confidence
        assert many.verdict.speedup_bound == pytest.approx(one.verdict.speedup_bound)


def test_a_second_diagnosis_plans_no_expressions_anew(store: Store) -> None:
    """Planning them takes most of the time of a small diagnosis."""
    manifest, planned = store.resolve("yax_before"), []
    for _ in range(2):
        assert diagnose(Workload(store, manifest))[1] == 1
        planned.append(set(database._planner()[1]))
    assert planned[0] == planned[1] != set()


def check_that_less_is_never_surer(store: Store, name: str, rounds: int, seed: int) -> None:
    manifest = store.resolve(name)
    full = {d.kernel: d for d in diagnose(Workload(store, manifest), limit=60)[0]}
    chance = random.Random(seed)
    for _ in range(rounds):
        count = min(chance.choice([1, 2, 5, 20, 100]), len(manifest.counters) - 1)
        gone = set(chance.sample(list(manifest.counters), count))
        less = manifest.model_copy(update={"counters": [c for c in manifest.counters if c not in gone]})
        for one in diagnose(Workload(store, less), limit=60)[0]:
            before, after = full[one.kernel].verdict, one.verdict
            assert after.subsystem == before.subsystem or after.confidence < evidence.CONFIDENT, (one.kernel, gone)
            assert after.confidence <= before.confidence, (one.kernel, gone)
            if after.confidence < evidence.CONFIDENT <= before.confidence:
                assert one.next_counters, (one.kernel, gone)


@pytest.mark.parametrize(("name", "rounds"), [("small", 1), ("yax_before", 2), ("vcopy_MI200", 1)])
def test_taking_counters_away_never_gives_another_confident_verdict(name: str, rounds: int, recorded: Store) -> None:
    check_that_less_is_never_surer(recorded, name, rounds, 1)


def test_bounds_are_never_below_one_and_a_saturated_kernel_has_little_to_gain(h200: dict[str, Diagnosis]) -> None:
    assert all(d.verdict.speedup_bound is None or d.verdict.speedup_bound >= 1 for d in h200.values())
    assert h200["fp64_fma"].verdict.speedup_bound == pytest.approx(1.01, abs=0.01)
    assert h200["reduce_sum"].verdict.speedup_bound < 1.1
    # Fixing it cannot gain more than lanes that are idle: 2.24 of 32 work.
    assert h200["divergence"].verdict.speedup_bound == pytest.approx(32 / 2.24, rel=0.01)
    # Without conflicts the transpose is bound by memory: 1212 us against 600 us of the padded version.
    assert 2 < h200["transpose_lds"].verdict.speedup_bound < 3


def test_advice_names_what_made_the_next_version_of_the_ladder_faster(h200: dict[str, Diagnosis]) -> None:
    for kernel, words in {
        "transpose_naive": "Stage a tile",
        "transpose_lds": "Pad the rows",
        "atomic_contention": "Reduce before updating",
        "spill_local": "Allow more registers",
        "small_grid": "more, smaller thread blocks",
        "low_occupancy_shared": "less shared memory per block",
        "divergence": "Sort or bin the work",
        "icache_heavy": "Make the loop code smaller",
        "barrier_heavy": "fewer barriers",
    }.items():
        (leading,) = [f for f in h200[kernel].findings if f.subsystem == h200[kernel].verdict.subsystem]
        assert any(words in a.do for a in leading.advice), kernel


COUNTED = ("smsp__", "sm__", "l1tex__", "lts__", "dram__", "pcie__", "idc__", "gcc__", "sass__")


Change = Callable[[dict[str, str]], None]


def altered(folder: Path, changes: list[tuple[str, Change]]) -> Store:
    """A store with kernels of the recording, in one workload named "made", of each of which columns were changed."""
    head, units, *rows = csv.reader(gzip.decompress(RECORDING.read_bytes()).decode().splitlines())
    made = []
    for kernel, change in changes:
        row = next(r for r in rows if kernel in r[head.index("Kernel Name")])
        change(values := dict(zip(head, row, strict=True)))
        made.append([values[name] for name in head])
    with (folder / "made.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([head, units, *made])
    store = Store(folder / "store")
    import_profile(store, str(folder / "made.csv"), name="made")
    return store


def count_nothing(made: dict[str, str]) -> None:
    """As if waves ended after two instructions: what the units count is zero."""
    for name in made:
        if "cycles_elapsed" in name:
            made[name] = str(float(made[name].replace(",", "")) * 2850 / 857_184)
        elif name.startswith(COUNTED) and not name.endswith((".peak_sustained", ".per_second")):
            made[name] = "0"
    made["smsp__inst_executed.sum"] = str(2 * 2112 * 256 // 32)
    made["gpu__time_duration.sum"] = "2850"


def count_doubles(made: dict[str, str]) -> None:
    """As if its products were FP64, of which the tensor cores do a sixteenth as many."""
    f16, f64 = (f"sm__ops_path_tensor_src_{kind}.sum" for kind in ("fp16", "fp64"))
    made |= {f64: str(float(made[f16].replace(",", "")) / 16), f16: "0"}


PRODUCT = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_aligna4_alignc4"
"""A kernel of cuBLAS."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A kernel that does nothing, one of products in FP64, and one of a library."""
    changes: list[tuple[str, Change]] = [
        ("stream_add", count_nothing),
        ("tensor_f16", count_doubles),
        ("fp32_fma", lambda made: made.update({"Kernel Name": PRODUCT})),
    ]
    return altered(tmp_path_factory.mktemp("made"), changes)


@pytest.fixture(scope="module")
def changed(made: Store) -> dict[str, Diagnosis]:
    return diagnosed(made, made.resolve("made"))


def test_products_in_fp64_get_no_advice_to_use_what_they_lack(
    h200: dict[str, Diagnosis], changed: dict[str, Diagnosis]
) -> None:
    one, own = changed["tensor_f16"], h200["tensor_f16"]
    texts = {name: " ".join(a.do for a in d.findings[0].advice) for name, d in (("f64", one), ("f16", own))}
    assert one.verdict.subsystem == own.verdict.subsystem == "matrix"
    assert "wgmma" in texts["f16"] and "precision" in texts["f16"]
    assert "symmetry" in texts["f64"] and not any(word in texts["f64"] for word in ("wgmma", "precision"))


def test_the_kernel_of_a_library_gets_no_advice_about_its_code(
    h200: dict[str, Diagnosis], changed: dict[str, Diagnosis]
) -> None:
    one, own = changed[PRODUCT], h200["fp32_fma"]
    assert (one.verdict.subsystem, len(one.findings)) == (own.verdict.subsystem, len(own.findings))
    advice = [advice for finding in one.findings for advice in finding.advice]
    assert ["TF32" in a.do for a in advice] == [True] and not any(map(str.isdigit, advice[0].text.partition("[")[2]))
    assert not any("library" in a.do or "TF32" in a.do for finding in own.findings for a in finding.advice)


def test_a_kernel_at_the_balance_point_is_limited_by_both_units_at_once(shared: Path, tmp_path: Path) -> None:
    """mixbench on an MI200: memory falls and arithmetic rises from kernel to kernel, until they are about equal."""
    store = Store(tmp_path)
    kernels, _ = diagnose(Workload(store, stored(store, shared / "workloads" / "mixbench" / "MI200")))
    balanced = [one for one in kernels if one.verdict.beside]
    assert {(one.verdict.subsystem, *one.verdict.beside) for one in balanced} == {("valu", "hbm"), ("hbm", "valu")}
    for one in balanced:
        loads = {load.label: load.pct or 0.0 for load in one.units}
        both = loads["device memory"], loads["arithmetic pipe"]
        assert min(both) >= 0.75 * max(both) > 60 and one.verdict.confidence >= 0.7
    assert len(balanced) < len(kernels) / 2
    first = next(one for one in balanced if one.verdict.subsystem == "hbm")
    assert "limited by device memory and vector arithmetic at once" in kernel_sentence(first, "sm_90")


def test_a_kernel_that_does_nothing_is_told_so_before_any_rule_fires(changed: dict[str, Diagnosis]) -> None:
    one = changed["stream_add"]
    assert one.verdict.subsystem == "dispatch" and one.verdict.confidence == evidence.CONFIDENT
    assert one.verdict.speedup_bound is None and one.next_counters == []
    (finding,) = one.findings
    assert "Too short to be limited" in finding.claim and "2 instructions per warp" in finding.claim
    told = {e.metric: (e.value, e.threshold) for e in finding.evidence}
    assert told["dispatch.instructions_per_wave"] == (2.0, "< 128") and told["dispatch.duration_ns"][0] == 2850


def test_a_short_kernel_whose_instructions_were_not_counted_has_no_certain_verdict(made: Store) -> None:
    manifest = made.resolve("made")
    known = [c for c in manifest.counters if not c.startswith(("smsp__inst_executed.", "sm__inst_executed."))]
    one = diagnosed(made, manifest.model_copy(update={"counters": known}))["stream_add"]
    assert one.verdict.confidence < evidence.CONFIDENT
    assert any("dispatch.instructions_per_wave" in request.metrics for request in one.next_counters)


def test_what_is_known_bounds_nothing_where_the_use_of_memory_is_not(shared: Path, tmp_path: Path) -> None:
    """Only counters of SQ: the arithmetic pipe is used to 0.7 %, which would bound at 151."""
    store = Store(tmp_path)
    manifest = stored(store, shared / "workloads" / "ipblocks_SQ" / "MI300X_A1")
    ((one,), _) = diagnose(Workload(store, manifest))
    assert one.verdict.subsystem == "occupancy" and one.verdict.speedup_bound is None
    assert all(finding.speedup_bound is None and finding.then is None for finding in one.findings)
    assert [told for told in one.undecided if "no speedup_bound" in told and "device memory" in told]
    (told,) = diagnose(Workload(store, stored(store, shared / "workloads" / "ipblocks_TCC" / "MI100")))[0]
    assert told.verdict.speedup_bound is not None and told.verdict.speedup_bound < 2, "memory's own load bounds it"
