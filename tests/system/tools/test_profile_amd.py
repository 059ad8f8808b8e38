"""Profiling on AMD from the question to the workload, without an AMD GPU: stand-ins play AMD's profilers.

What is tested is everything around the measurement: plan, command lines, runs, failures, import. The counters are made
up from a recording (tests/standins/README.md), so no figure here says anything about a GPU.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.tests.standins import launches
from rooflens.tests.support.amd_node import APP, COPY, FEW, FMA, THREE, Node, expected, launching
from rooflens.tools import check_counters as checking
from rooflens.tools import profile_command as profiling
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.import_profile import import_profile
from rooflens.tools.plan_profile import plan_profile
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running.run_state import read_record


@pytest.mark.parametrize("version", ["0.4.0", "1.4.1"])
def test_every_version_gives_counters_times_and_metrics(node: Node, version: str) -> None:
    order = ["copy", "fma", "copy", "tile"]
    result = node.has(version).hand(*launching(*order), profiler_version=version)
    assert (result.dispatches, result.passes, result.warnings) == (4, 2, [])
    found = node.manifest(result.workload)
    assert (found.vendor, found.arch, found.tool) == ("amd", "gfx90a", "rocprofv3")
    assert found.facts["cu_per_gpu"] == 104 and found.facts["max_sclk"] == 1700
    assert node.rows(result.workload, "d.vgpr", "d.sgpr", "d.lds_bytes")[2:] == [(8, 16, 0), (8, 16, 2048)]
    assert "static LDS" not in " ".join(result.notes)
    names = ["d.kernel", "d.grid", "d.workgroup_size", "d.duration_ns", "SQ_WAVES", "TCC_HIT_sum"]
    rows = node.rows(result.workload, *names)
    assert [row[0] for row in rows] == [launches.KERNELS[name]["kernel"] for name in order]
    assert [row[1:3] for row in rows] == [(1048576, 256), (65536, 256), (1048576, 256), (8192, 512)]
    # The run without counters gives the times: a counted launch takes a tenth longer.
    assert [row[3] for row in rows] == [launches.launch(n).duration_ns + 7 * i for i, n in enumerate(order, 1)]
    assert [row[4] for row in rows] == expected("SQ_WAVES", *order)
    assert [row[5] for row in rows] == expected("TCC_HIT", *order)
    hit, miss = (sum(expected(c, *order)) for c in ("TCC_HIT", "TCC_MISS"))
    table = compute_metrics(node.store, result.workload, ["l2.hit_rate_pct"]).table
    assert table.rows[0][table.columns.index("avg")] == pytest.approx(100 * hit / (hit + miss))


def test_a_launcher_s_line_runs_as_printed(node: Node) -> None:
    node.has()
    plan = plan_profile(node.store, "gfx90a", [], command=["/bin/true"], detail="full")
    fake = node.programs / "mpirun"
    # Stands in for the launcher: its own words are the number of ranks, as -n N.
    fake.write_text(
        '#!/bin/bash\nn="$2"; shift 2\n'
        'for ((i = 0; i < n; i++)); do OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=$n "$@" || exit 1; done\n'
    )
    fake.chmod(0o755)
    line = plan.launchers["openmpi"].replace("RANKS", "2")
    subprocess.run(["bash", "-c", line], cwd=node.folder, check=True, capture_output=True)
    files = list((node.folder / "rooflens_run").rglob("*_results.db"))
    assert len(files) == 2
    assert import_profile(node.store, str(node.folder / "rooflens_run")).dispatches == 2 * len(launches.DEFAULT)


def test_filter_arguments_and_variables_arrive_and_secrets_do_not(node: Node) -> None:
    canary, log = "canary-5f1c9b7e2d", node.folder / "log"
    options = [f"--say={word}" for word in ("$(id)", ";ls", "a  b", "--kernel-trace")]
    node.has().patch.setenv("SOME_API_TOKEN", canary)
    # Variables of the profiler itself would change what the command line says.
    for name in ("ROCPROF_OUTPUT_PATH", "ROCPROF_OUTPUT_FILE_NAME", "ROCPROF_COUNTERS"):
        node.patch.setenv(name, "elsewhere")
    env = {"OMP_NUM_THREADS": "3", "MY_SETTING": "plain-77aa", "MY_PASSWORD": f"{canary}-x"}
    order, asked = launching("copy", "fma", "copy", "fma", "copy"), {"kernel": "vecCopy|tile", "launches": [2, 3]}
    run = node.profile("--log", str(log), *options, *order, env=env, cwd=str(node.folder), **asked)
    assert run.state == "done", (run.problem, run.output)
    (warning,) = run.warnings
    assert "2 dispatches matched" in warning and "3 of the main pass without it" in warning
    assert run.next[0].tool == "diagnose_bottleneck", run.next
    rows = node.rows(run.workload, "d.kernel", "SQ_WAVES", "d.duration_ns")
    assert [row[:2] for row in rows] == [(COPY, None), (FMA, None), (COPY, 16384.0), (FMA, None), (COPY, 16384.0)]
    assert all(row[2] for row in rows)
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(seen) == run.steps
    for one in seen:
        assert one["argv"][2:6] == options and one["cwd"] == str(node.folder)
        assert {"OMP_NUM_THREADS", "MY_PASSWORD"} <= set(one["env"]) and "SOME_API_TOKEN" not in one["env"]
    # rocpd databases hold the whole environment of the program.
    held = b"".join(p.read_bytes() for p in node.store.root.rglob("*") if p.is_file())
    assert canary.encode() not in held and b"plain-77aa" not in held
    assert canary not in run.model_dump_json()


def test_a_run_names_known_defects_and_wrong_settings_before_anything_runs(node: Node) -> None:
    node.has("1.3.2")
    balancing, nodes = node.folder / "root/proc/sys/kernel/numa_balancing", node.folder / "root/sys/devices/system/node"
    balancing.parent.mkdir(parents=True)
    balancing.write_text("1\n")
    for name in ("node0", "node1"):
        (nodes / name).mkdir(parents=True)
    run = profiling.profile_command(node.store, ["env", "SERVER=vllm", *APP, *launching("copy")], FEW, wait_s=0)
    told = " ".join(run.notes)
    assert "rocprofiler-sdk 1.3.5 (ROCm 10.0)" in told and "change times: numa_balancing." in told


def test_a_gpu_that_the_catalogue_does_not_know_gets_what_needs_no_metrics(node: Node) -> None:
    node.has("1.3.2", "gfx942")
    for file in (node.folder / "root").rglob("properties"):
        file.write_text(file.read_text().replace("gfx_target_version 90402", "gfx_target_version 90403"))
    run = node.profile(*launching("copy"), metrics=None)
    assert run.state == "done", (run.problem, run.output)
    assert any("rooflens doctor --draft gfx943.toml" in note for note in run.notes)
    held = node.manifest(run.workload)
    assert held.dispatches == 1 and held.counters == [] and held.events


def test_kernels_are_replayed_where_the_profiler_can(node: Node) -> None:
    log = node.folder / "log"
    metrics = ["SQ_WAVES", *THREE]
    run = node.has("1.4.1").profile("--log", str(log), metrics=metrics, replay="kernel")
    assert run.state == "done", (run.problem, run.output)
    assert len(log.read_text().splitlines()) == 2
    for counter in metrics:
        values = [launches.count("gfx90a", counter.removesuffix("_sum"), one) for one in launches.DEFAULT]
        assert [row[0] for row in node.rows(run.workload, counter)] == values
    with pytest.raises(Problem, match="replay"):
        node.has("1.3.2").profile(metrics=metrics, replay="kernel")


def test_counters_take_turns_between_the_launches_of_one_run(node: Node) -> None:
    log = node.folder / "log"
    metrics = ["dispatch.waves", *THREE]
    often = [word for _ in range(4) for word in ("--launch", "copy", "--launch", "fma")]
    run = node.has("1.3.2").profile("--log", str(log), *often, *launching("tile"), metrics=metrics, replay="iteration")
    assert run.state == "done", (run.problem, run.output)
    assert len(log.read_text().splitlines()) == 2, "one run for times, one for all counters"
    assert any("too few launches" in warning for warning in node.manifest_warnings(run.workload)), (
        "tile is launched once"
    )
    assert node.manifest(run.workload).multiplexed == "launch"
    rows = node.rows(run.workload, "d.kernel", *THREE)
    assert len(rows) == 9 and all(None in row for row in rows), "no launch holds all"
    for name, kernel in (("copy", COPY), ("fma", FMA)):
        for column, counter in enumerate(THREE, 1):
            held = {row[column] for row in rows if row[0] == kernel} - {None}
            assert held == {launches.count("gfx90a", counter.removesuffix("_sum"), launches.launch(name))}
    result = compute_metrics(node.store, str(run.workload), ["dispatch.waves"], by_kernel=True)
    kernel, avg = (result.table.columns.index(name) for name in ("kernel", "avg"))
    waves = {row[kernel]: row[avg] for row in result.table.rows}
    named = {"copy": COPY, "fma": FMA}
    right = {k: launches.count("gfx90a", "SPI_CSN_WAVE", launches.launch(n)) for n, k in named.items()}
    assert right.items() <= waves.items()


@pytest.mark.parametrize("version", ["0.6.0", "1.3.2"])
def test_a_program_that_takes_long_for_its_budget_is_run_once_more(node: Node, version: str) -> None:
    log = node.folder / "log"
    metrics = ["SQ_WAVES", *THREE]
    for slower in (1, 3, 9, 27):  # all that is not the program's sleep takes long on a busy machine
        log.unlink(missing_ok=True)
        sleep, budget_s = str(0.4 * slower), 1.6 * slower
        run = node.has(version).profile("--log", str(log), "--sleep", sleep, metrics=metrics, budget_s=budget_s)
        if run.state == "done" and run.steps == 2:
            break
    assert run.state == "done", (run.problem, run.output)
    assert len(log.read_text().splitlines()) == 2 and (run.steps_done, run.steps) == (2, 2)
    if version == "1.3.2":  # its counters take turns
        assert node.manifest(run.workload).multiplexed == "launch"
        assert any("replay='application'" in note for note in run.notes)
    else:
        assert any("only 1 of them will run, without" in note for note in run.notes), run.notes
        assert not any("may not know them" in warning for warning in run.warnings), "only what was asked for is missed"


def test_a_failing_program_keeps_the_runs_before(node: Node) -> None:
    run = node.has().profile(*launching("copy"), "--fail-in", "pass_2", metrics=THREE)
    assert (run.state, run.partial, run.steps_done, run.steps) == ("failed", True, 2, 3)
    assert "pass_2" in (run.problem or "") and "the program broke down" in (run.output or "")
    found = node.manifest(run.workload)
    assert "partial" in found.tags and any("pass_2 in part" in w.text for w in found.warnings)
    assert set(THREE) <= set(found.counters), "a program that ends by itself leaves whole files"


def test_a_pass_that_the_gpu_refuses_costs_its_counters_and_no_others(node: Node) -> None:
    run = node.has(trouble="refused@pass_1/pass_1").profile(*launching("copy"), metrics=THREE)
    assert (run.state, run.partial, run.steps_done, run.steps) == ("failed", True, 2, 3)
    assert "cannot count all counters" in (run.problem or "") and "Could not construct" in (run.output or "")
    found = node.manifest(run.workload)
    assert "cannot count all counters" in found.warnings[0].text, "the reason stays with the workload"
    collected = set(THREE) & set(found.counters)
    assert collected and collected < set(THREE)


def test_what_a_preset_holds_for_other_gpus_is_no_news_unlike_what_was_named(node: Node) -> None:
    told = []
    for metrics in (["diagnosis"], ["SQ_WAVES", "fabric.pcie_read_bw_gbs"]):
        run = node.has().profile(metrics=metrics, wait_s=0)
        told.append(read_record(node.store.run_folder(run.run_id)).warnings)
    (usual, (named,)) = told
    assert usual == [] and named.startswith("fabric.pcie_read_bw_gbs: not collected, gfx90a")


def test_a_check_whose_program_fails_judges_no_metric_and_shows_its_words(node: Node) -> None:
    """Nothing can be launched here; a metric that was not counted is no wrong one."""
    node.has("1.3.2", "gfx942")
    roots = profiling.Roots()
    node.patch.setattr(checking, "Roots", lambda: roots)
    node.patch.setenv("HIP_VISIBLE_DEVICES", "-1")
    run = checking.check_counters(node.store, metrics=["dispatch.waves"])
    assert (run.state, run.steps_done, run.check, run.workload) == ("failed", 0, None, None)
    assert run.output is not None and ("GPU" in run.output or "HIP" in run.output)


def test_no_gpu_is_said_and_the_plan_offered(node: Node) -> None:
    node.has()
    shutil.rmtree(node.folder / "root" / "sys")
    with pytest.raises(Problem, match="No GPU is visible"):
        node.profile(*launching("copy"))


def test_clocks_of_a_run_are_kept_and_a_counter_that_the_profiler_leaves_out_is_named(node: Node) -> None:
    """The card's files are made by hand: at 1200 of 1700 MHz, held back by heat."""
    node.has(trouble="unknown")
    card = node.folder / "root/sys/bus/pci/devices/0000:03:00.0"
    (card / "hwmon/hwmon0").mkdir(parents=True)
    for name, value in (("freq1_input", 1_200_000_000), ("power1_average", 300_000_000), ("temp2_input", 105_000)):
        (card / "hwmon/hwmon0" / name).write_text(f"{value}\n")
    (card / "gpu_metrics").write_bytes(struct.pack("<HBB108xQ", 120, 1, 3, 1 << 36))
    properties = next((node.folder / "root/sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
    for path in properties.parents[1].glob("*/properties"):
        text = re.sub(r"(?m)^location_id .*\n", "", path.read_text())
        path.write_text(f"{text.rstrip()}\nlocation_id 768\n")
    done = node.profile(*launching("copy"), metrics=THREE[:2])
    assert done.state == "done", done.problem
    (lost,) = set(THREE[:2]) - set(node.manifest(done.workload).counters)
    assert any(lost in warning for warning in done.warnings), done.warnings
    rows = node.rows(done.workload, "step", "clock_mhz", "power_w", "temperature_c", "held_back", table="clocks")
    assert set(rows) == {
        ("timing", 1200.0, 300.0, 105.0, "temperature"),
        ("pass_1", 1200.0, 300.0, 105.0, "temperature"),
    }
    assert any("limited by heat" in warning for warning in node.manifest_warnings(done.workload))
    told = query_counters(node.store, "SELECT any_value(held_back), max(clock_mhz) FROM clocks", workload=done.workload)
    assert told.table.rows == [["temperature", 1200.0]]
