"""Profiling on AMD from the question to the workload, without an AMD GPU: stand-ins play AMD's profilers.

What is tested is everything around the measurement: plan, command lines, runs, failures, import. The counters are made
up from a recording (tests/standins/README.md), so no figure here says anything about a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.base.database import sql_name
from rooflens.analysis.base.problems import Problem
from rooflens.analysis.store.store import Manifest, Store
from rooflens.tests.standins import application, launches
from rooflens.tests.standins.install import install, machine
from rooflens.tests.standins.options import VERSIONS
from rooflens.tests.standins.setting import VARIABLE
from rooflens.tests.support.figures import evaluate
from rooflens.tests.support.waiting import ended
from rooflens.tools import check_counters as checking
from rooflens.tools import profile_command as profiling
from rooflens.tools.cancel_run import cancel_run
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.import_profile import ImportResult, import_profile
from rooflens.tools.plan_profile import PlanResult, plan_profile
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running import profile_start
from rooflens.tools.running import start as launch

APP = [sys.executable, application.__file__]
FEW = ["SQ_WAVES", "l2.hit_rate_pct"]
"""One pass on every target."""
THREE = ["TD_TD_BUSY_sum", "TD_TC_STALL_sum", "TD_LOAD_WAVEFRONT_sum"]
"""One more than the block has registers for: two passes."""
COPY, FMA = (launches.KERNELS[name]["kernel"] for name in ("copy", "fma"))


class Node:
    """A machine with one AMD GPU, as far as rooflens can see."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.store = Store(folder / "store")
        self.programs = folder / "rocm" / "bin"
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        for name in [n for n in os.environ if n.startswith(("ROCPROF", "ROCP_", "OMPI_", "SLURM_", "PMI", "RANK"))]:
            patch.delenv(name)

    def has(self, version: str = "1.3.2", target: str = "gfx90a", **setting: Any) -> Node:
        """Install the stand-ins and the GPU."""
        install(self.folder / "rocm", **{"version": version, "target": target, "programs": ("rocprofv3",), **setting})
        machine(self.folder / "root", target)
        self.patch.setenv("PATH", f"{self.programs}:{os.environ['PATH']}")
        roots = Roots(base=self.folder / "root", search=str(self.programs), site=None)
        self.patch.setattr(profiling, "Roots", lambda: roots)
        self.patch.setattr(profile_start, "Roots", lambda: roots)
        return self

    def profile(self, *arguments: str, **options: Any) -> RunResult:
        """profile_command of the program with these arguments."""
        run = profiling.profile_command(self.store, [*APP, *arguments], **{"metrics": FEW, **options})
        return run if "wait_s" in options else ended(self.store, run)

    def manifest(self, workload: str | None) -> Manifest:
        assert workload is not None
        return self.store.resolve(workload)

    def manifest_warnings(self, workload: str | None) -> list[str]:
        return [warning.text for warning in self.manifest(workload).warnings]

    def rows(
        self, workload: str | None, *columns: str, table: str = "", rest: str = ""
    ) -> list[tuple[Any, ...]]:  # fmt: skip
        """Columns of dispatches (d.) joined with their counters, by process and dispatch; or of another table."""
        found = self.manifest(workload)
        names = ", ".join(c if c.startswith("d.") else f"c.{sql_name(c)}" for c in columns)
        if table:
            return duckdb.sql(f"SELECT {', '.join(columns)} FROM '{self.store.file(found, table)}' {rest}").fetchall()
        return duckdb.sql(
            f"SELECT {names} FROM '{self.store.file(found, 'dispatches')}' d "
            f"JOIN '{self.store.file(found, 'counters')}' c USING (dispatch_id) ORDER BY d.pid, dispatch_id"
        ).fetchall()

    def by_hand(self, plan: PlanResult, folder: str = "hand", **env: str) -> Path:
        """Do what a person does with a plan on another machine: write the files, run the commands one by one."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        subprocess.run(["bash", "-c", plan.prepare], cwd=place, check=True)
        file, text = plan.files.columns.index("file"), plan.files.columns.index("text")
        for row in plan.files.rows:
            (place / row[file]).write_text(row[text], encoding="utf-8")
        for command in plan.commands:
            done = subprocess.run(
                command.argv, cwd=place, env={**os.environ, **command.env, **env},
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command.shell, done.stderr)
        return place / "rooflens_run"

    def hand(self, *arguments: str, target: str = "gfx90a", **options: Any) -> ImportResult:
        """plan_profile for a program with these arguments, its commands run by hand, and the folder imported."""
        asked = {"metrics": FEW, "command": [*APP, *arguments], "detail": "full", **options}
        return import_profile(self.store, str(self.by_hand(plan_profile(self.store, target, **asked))))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    yield Node(tmp_path, monkeypatch)
    launch.stop_all()


def expected(counter: str, *kernels: str, target: str = "gfx90a") -> list[float]:
    return [launches.count(target, counter, launches.launch(name)) for name in kernels]


def launching(*names: str) -> list[str]:
    """Arguments of the program that make it launch these kernels."""
    return [argument for name in names for argument in ("--launch", name)]


@pytest.mark.parametrize("version", VERSIONS)
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


@pytest.mark.parametrize(("version", "target"), [("1.3.2", "gfx942"), ("0.6.0", "gfx90a")])
def test_everything_by_hand_and_imported(node: Node, version: str, target: str) -> None:
    node.has(version, target)
    asked = {"metrics": ["everything"], "profiler_version": version, "command": ["/bin/true"]}
    plan = plan_profile(node.store, "MI300X" if target == "gfx942" else target, **asked, detail="full")
    assert plan.application_runs == len(plan.commands) > 10
    result = import_profile(node.store, str(node.by_hand(plan)))
    # Counters of the stand-in are made one by one, so that what they say together cannot be.
    beside = [warning for warning in result.warnings if not warning.startswith("identity: ")]
    assert (result.passes_unmatched, beside) == (0, []) and result.dispatches == len(launches.DEFAULT)
    found = set(node.manifest(result.workload).counters)
    found |= {f"{name}[*]" for (name,) in node.rows(result.workload, "DISTINCT counter", table="counter_instances")}
    channels = node.rows(
        result.workload, "dispatch_id", "max(xcd) + 1", "max(instance) + 1", "sum(value)",
        table="counter_instances", rest="WHERE counter = 'TCC_HIT' GROUP BY 1 ORDER BY 1",
    )  # fmt: skip
    shape = (8, 16) if target == "gfx942" else (1, 32)
    hits = [launches.count(target, "TCC_HIT", one) for one in launches.DEFAULT]
    assert [row[1:] for row in channels] == [(*shape, value) for value in hits]
    # A level that is integrated is not counted itself; the rest is what the notes leave out.
    assert named(plan) - found - {name.removesuffix("_ACCUM") for name in found} <= left_out(plan)
    order = [one.kernel for one in launches.DEFAULT]
    waves = [launches.count(target, "SQ_WAVES", one) for one in launches.DEFAULT]
    assert node.rows(result.workload, "d.kernel", "SQ_WAVES") == list(zip(order, waves, strict=True))
    level = [launches.count(target, "SQ_LEVEL_WAVES_ACCUM", one) for one in launches.DEFAULT]
    assert [row[0] for row in node.rows(result.workload, "SQ_LEVEL_WAVES_ACCUM")] == level
    figures = evaluate(node.store, result.workload, ["*"])
    counted = [figure for figure in figures if not figure.metric.imported_only]
    empty = {
        figure.metric.name: str(figure.reason or "") for figure in counted if figure.status not in ("ok", "suspect")
    }
    # The kernels do neither atomics nor matrix operations; CSV files do not describe the memory.
    lacking = {name for name, reason in empty.items() if "denominator is zero" not in reason}
    assert len(figures) > 200
    assert lacking - set(plan.unsupported) <= ({"hbm.peak_bw_gbs"} if version == "0.6.0" else set()), empty


def named(plan: PlanResult) -> set[str]:
    """The counters of a plan."""
    column = plan.passes.columns.index("names")
    return {name for row in plan.passes.rows for name in row[column].split()}


def left_out(plan: PlanResult) -> set[str]:
    """Counters that a note says this version cannot count."""
    notes = [note for note in plan.notes if note.startswith("Skipped: ")]
    return {name for note in notes for name in note.removeprefix("Skipped: ").split(":")[0].split(", ")}


def test_a_run_gives_what_the_commands_give_by_hand(node: Node) -> None:
    node.has()
    run = node.profile(*launching("copy", "tile"), name="first", tags=["x"])
    assert (run.state, run.steps, run.partial, run.warnings) == ("done", 2, False, []), (run.problem, run.output)
    by_hand = node.hand(*launching("copy", "tile")).workload
    same = ["d.kernel", "d.grid", "d.workgroup_size", "d.vgpr", "d.lds_bytes", "d.duration_ns", "SQ_WAVES"]
    assert node.rows(run.workload, *same) == node.rows(by_hand, *same)
    assert [row[0] for row in node.rows(by_hand, "d.lds_bytes")] == [0, 2048]
    mine, theirs = node.manifest(run.workload), node.manifest(by_hand)
    assert mine.facts == theirs.facts and (mine.name, mine.tags) == ("first", ["x"])
    assert "application.py" in (mine.command or "")


def test_a_plan_for_an_older_version_runs_on_a_newer_one(node: Node) -> None:
    assert node.has("1.3.2").hand(*launching("copy"), profiler_version="6.4").dispatches == 1


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_every_format_of_one_run_reads_the_same(node: Node, target: str) -> None:
    node.has("1.3.2", target)
    counters = ["SQ_WAVES", "GRBM_GUI_ACTIVE", "TCC_HIT_sum", "TA_TA_BUSY_sum"]
    line = ["rocprofv3", "--kernel-trace", "--pmc", *counters, "--output-format", "csv", "json", "rocpd", "-d", "all"]
    subprocess.run([*line, "-o", "x_%pid%", "--", *APP, *launching("copy", "fma", "tile")], cwd=node.folder, check=True)
    read = {}
    for kind in ("csv", "json", "db"):
        place = node.folder / kind
        place.mkdir()
        for file in (node.folder / "all").glob(f"*.{kind}"):
            shutil.copy(file, place)
        result = import_profile(node.store, str(place))
        names = ["d.kernel", "d.grid", "d.workgroup_size", "d.vgpr", "d.sgpr", "d.duration_ns", *counters]
        read[kind] = node.rows(result.workload, *names), node.manifest(result.workload).arch
    order = ("copy", "fma", "tile")
    assert [row[6:] for row in read["csv"][0]] == [
        tuple(launches.count(target, launches.event_of(c), launches.launch(name)) for c in counters) for name in order
    ]
    assert read["csv"] == read["json"] == read["db"]


def test_ranks_by_hand_stay_apart(node: Node) -> None:
    node.has()
    command = [*APP, *launching("copy", "fma")]
    plan = plan_profile(node.store, "gfx90a", FEW, command=command, detail="full")
    for rank in "01":
        folder = node.by_hand(plan, OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE="2")
    result = import_profile(node.store, str(folder))
    assert (result.dispatches, result.passes_unmatched, result.warnings) == (4, 0, [])
    rows = node.rows(result.workload, "d.pid", "d.kernel", "SQ_WAVES")
    assert len({row[0] for row in rows}) == 2
    assert [row[1:] for row in rows] == [(COPY, 16384.0), (FMA, 1024.0)] * 2


@pytest.mark.parametrize(
    ("launcher", "program", "variables"),
    [
        ("slurm", "srun", "SLURM_PROCID=$i SLURM_NTASKS=$n"),
        ("openmpi", "mpirun", "OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=$n"),
    ],
)
def test_a_launcher_s_line_runs_as_printed(node: Node, launcher: str, program: str, variables: str) -> None:
    node.has()
    plan = plan_profile(node.store, "gfx90a", [], command=["/bin/true"], detail="full")
    fake = node.programs / program
    # Stands in for the launcher: its own words are the number of ranks, as --ntasks=N or -n N.
    fake.write_text(
        '#!/bin/bash\nn="${1#--ntasks=}"; shift; [ "$n" = -n ] && { n="$1"; shift; }\n'
        f'for ((i = 0; i < n; i++)); do {variables} "$@" || exit 1; done\n'
    )
    fake.chmod(0o755)
    line = plan.launchers[launcher].replace("RANKS", "3")
    subprocess.run(["bash", "-c", line], cwd=node.folder, check=True, capture_output=True)
    files = list((node.folder / "rooflens_run").rglob("*_results.db"))
    assert len(files) == 3
    assert import_profile(node.store, str(node.folder / "rooflens_run")).dispatches == 3 * len(launches.DEFAULT)


def test_kernel_filter_and_launch_range_arrive(node: Node) -> None:
    order = launching("copy", "fma", "copy", "fma", "copy")
    run = node.has().profile(*order, kernel="vecCopy|tile", launches=[2, 3])
    assert run.state == "done", run.problem
    rows = node.rows(run.workload, "d.kernel", "SQ_WAVES", "d.duration_ns")
    assert [row[:2] for row in rows] == [(COPY, None), (FMA, None), (COPY, 16384.0), (FMA, None), (COPY, 16384.0)]
    assert all(row[2] for row in rows)


@pytest.mark.parametrize("version", ["0.6.0", "1.3.2"])
def test_a_kernel_filter_is_a_value_and_never_an_option(node: Node, version: str) -> None:
    regex = r"--help|fma_chain<float, 16>\("
    result = node.has(version).hand(*launching("fma"), kernel=regex, profiler_version=version)
    assert node.rows(result.workload, "SQ_WAVES") == [(1024.0,)]


@pytest.mark.parametrize("version", ["0.6.0", "1.3.2"])
def test_processes_of_a_program_stay_apart(node: Node, version: str) -> None:
    result = node.has(version).hand(*launching("copy", "fma"), "--fork", profiler_version=version)
    assert result.warnings == []
    rows = node.rows(result.workload, "d.pid", "d.kernel", "SQ_WAVES")
    assert len({row[0] for row in rows}) == 2
    assert [row[1:] for row in rows] == [(COPY, 16384.0), (FMA, 1024.0)] * 2


def test_a_helper_process_without_kernels_does_no_harm(node: Node) -> None:
    result = node.has().hand(*launching("copy"), "--helper")
    assert result.warnings == []
    assert node.rows(result.workload, "d.kernel", "SQ_WAVES") == [(COPY, 16384.0)]


def test_arguments_and_variables_arrive_and_secrets_do_not(node: Node) -> None:
    canary, log = "canary-5f1c9b7e2d", node.folder / "log"
    options = [f"--say={word}" for word in ("$(id)", ";ls", "a  b", "--kernel-trace")]
    node.has().patch.setenv("SOME_API_TOKEN", canary)
    # Variables of the profiler itself would change what the command line says.
    for name in ("ROCPROF_OUTPUT_PATH", "ROCPROF_OUTPUT_FILE_NAME", "ROCPROF_COUNTERS"):
        node.patch.setenv(name, "elsewhere")
    env = {"OMP_NUM_THREADS": "3", "MY_SETTING": "plain-77aa", "MY_PASSWORD": f"{canary}-x"}
    run = node.profile("--log", str(log), *options, *launching("copy"), env=env, cwd=str(node.folder))
    assert (run.state, run.warnings) == ("done", []), (run.problem, run.output)
    assert node.rows(run.workload, "SQ_WAVES") == [(16384.0,)]
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
    assert ended(node.store, run).state == "done"


@pytest.mark.parametrize(
    ("metrics", "table"), [(None, ""), ([], ""), (["timeline"], "events"), (["hotspots"], "samples")]
)
def test_a_gpu_that_the_catalogue_does_not_know_gets_what_needs_no_metrics(
    node: Node, metrics: list[str] | None, table: str
) -> None:
    node.has("1.3.2", "gfx942")
    for file in (node.folder / "root").rglob("properties"):
        file.write_text(file.read_text().replace("gfx_target_version 90402", "gfx_target_version 90403"))
    run = node.profile(*launching("copy"), metrics=metrics)
    assert run.state == "done", (run.problem, run.output)
    assert any("rooflens doctor --draft gfx943.toml" in note for note in run.notes)
    held = node.manifest(run.workload)
    assert held.dispatches == 1 and held.counters == [] and (not table or held.model_dump()[table])


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
    run = node.has("1.3.2").profile("--log", str(log), *often, metrics=metrics, replay="iteration")
    assert run.state == "done", (run.problem, run.output)
    assert len(log.read_text().splitlines()) == 2, "one run for times, one for all counters"
    assert node.manifest(run.workload).multiplexed == "launch"
    rows = node.rows(run.workload, "d.kernel", *THREE)
    assert len(rows) == 8 and all(None in row for row in rows), "no launch holds all"
    for name, kernel in (("copy", COPY), ("fma", FMA)):
        for column, counter in enumerate(THREE, 1):
            held = {row[column] for row in rows if row[0] == kernel} - {None}
            assert held == {launches.count("gfx90a", counter.removesuffix("_sum"), launches.launch(name))}
    result = compute_metrics(node.store, str(run.workload), ["dispatch.waves"], by_kernel=True)
    waves = {
        row[result.table.columns.index("kernel")]: row[result.table.columns.index("avg")] for row in result.table.rows
    }
    named = {"copy": COPY, "fma": FMA}
    assert waves == {k: launches.count("gfx90a", "SPI_CSN_WAVE", launches.launch(n)) for n, k in named.items()}


def test_a_program_that_takes_long_for_its_budget_is_run_once_more_and_not_once_for_each_pass(node: Node) -> None:
    log = node.folder / "log"
    metrics = ["SQ_WAVES", *THREE]
    for slower in (1, 6):  # all that is not the program's sleep takes long on a busy machine
        log.unlink(missing_ok=True)
        sleep, budget_s = str(3 * slower), 12 * slower
        run = node.has("1.3.2").profile("--log", str(log), "--sleep", sleep, metrics=metrics, budget_s=budget_s)
        if run.state == "done":
            break
    assert run.state == "done", (run.problem, run.output)
    assert len(log.read_text().splitlines()) == 2 and (run.steps_done, run.steps) == (2, 2)
    assert node.manifest(run.workload).multiplexed == "launch"
    assert any("replay='application'" in note for note in run.notes)
    again = node.has("1.3.2").profile("--log", str(log), "--sleep", "0.6", metrics=metrics, replay="application")
    assert again.steps == 3 and node.manifest(again.workload).multiplexed is None


def test_a_kernel_that_missed_its_turn_is_named(node: Node) -> None:
    words = ["--launch", "fma", *[word for _ in range(6) for word in ("--launch", "copy")]]
    run = node.has("1.3.2").profile(*words, metrics=["SQ_WAVES", *THREE], replay="iteration")
    assert any("too few launches" in warning for warning in node.manifest_warnings(run.workload))


@pytest.mark.parametrize(("program", "target"), [("rocprof", "gfx90a"), ("rocprofv2", "gfx942")])
def test_the_older_profilers(node: Node, program: str, target: str) -> None:
    node.has(target=target, programs=(program, "rocminfo"))
    run = node.profile(*launching("copy", "tile"), metrics=[*FEW, "SQ_LEVEL_WAVES_ACCUM"], profiler=program)
    assert run.state == "done", (run.problem, run.output)
    rows = node.rows(run.workload, "d.grid", "SQ_WAVES", "TCC_HIT_sum", "SQ_LEVEL_WAVES_ACCUM")
    counters = ("SQ_WAVES", "TCC_HIT", "SQ_LEVEL_WAVES_ACCUM")
    assert rows == [
        (one.items, *(launches.count(target, c, one) for c in counters))
        for one in (launches.launch("copy"), launches.launch("tile"))
    ]
    assert node.manifest(run.workload).tool == program


def test_a_failing_program_keeps_the_runs_before(node: Node) -> None:
    run = node.has().profile(*launching("copy"), "--fail-in", "pass_2", metrics=THREE)
    assert (run.state, run.partial, run.steps_done, run.steps) == ("failed", True, 2, 3)
    assert "pass_2" in (run.problem or "") and "the program broke down" in (run.output or "")
    found = node.manifest(run.workload)
    assert "partial" in found.tags and any("pass_2 in part" in w.text for w in found.warnings)
    assert set(THREE) <= set(found.counters), "a program that ends by itself leaves whole files"


def test_a_program_that_fails_at_its_end_is_measured_like_any_other(node: Node) -> None:
    run = node.has().profile(*launching("copy"), "--status", "5", "--say", "Datei données.bin fehlt", metrics=THREE)
    assert (run.state, run.partial, run.output) == ("failed", True, "Datei données.bin fehlt")
    assert "status 5 in timing" in (run.problem or "")
    assert node.rows(run.workload, *THREE)[0] == tuple(expected(c.removesuffix("_sum"), "copy")[0] for c in THREE)


def test_a_program_that_fails_at_once_leaves_nothing(node: Node) -> None:
    run = node.has().profile("--status", "7", env={VARIABLE: "no_output"})
    assert (run.state, run.workload) == ("failed", None)
    assert "7" in (run.problem or "")
    assert node.store.scan() == ([], [])


def test_a_pass_that_the_gpu_refuses_costs_its_counters_and_no_others(node: Node) -> None:
    run = node.has(trouble="refused@pass_1/pass_1").profile(*launching("copy"), metrics=THREE)
    assert (run.state, run.partial, run.steps_done, run.steps) == ("failed", True, 2, 3)
    assert "cannot count all counters" in (run.problem or "") and "Could not construct" in (run.output or "")
    found = node.manifest(run.workload)
    assert "cannot count all counters" in found.warnings[0].text, "the reason stays with the workload"
    collected = set(THREE) & set(found.counters)
    assert collected and collected < set(THREE)


@pytest.mark.parametrize("version", ["1.0.0", "1.3.2"])
def test_refused_counters_are_explained_and_the_times_kept(node: Node, version: str) -> None:
    run = node.has(version, trouble="refused").profile(*launching("copy"))
    assert (run.state, run.partial) == ("failed", True)
    assert "cannot count all counters" in (run.problem or ""), run.problem
    assert node.rows(run.workload, "kernel", "duration_ns", table="counters") == [(COPY, 20487.0)]


def test_a_profiler_that_writes_nothing_is_no_success(node: Node) -> None:
    run = node.has(trouble="no_output@pass_1").profile(*launching("copy"))
    assert (run.state, run.partial, run.steps_done) == ("failed", True, 1)
    assert "without writing anything" in (run.problem or "")


def test_a_profiler_that_fails_after_writing(node: Node) -> None:
    run = node.has().profile(*launching("copy"), env={VARIABLE: "exit@pass_1"})
    assert (run.state, run.partial, run.steps_done) == ("failed", True, 1)
    assert "status 3" in (run.problem or "")
    assert node.rows(run.workload, "SQ_WAVES") == [(expected("SQ_WAVES", "copy")[0],)], "what it wrote is kept"


@pytest.mark.parametrize("version", ["0.6.0", "1.3.2"])
def test_half_a_file_is_no_data(node: Node, version: str) -> None:
    node.has(version, trouble="truncated@pass_2")
    result = node.hand(*launching("copy", "fma"), metrics=THREE, profiler_version=version)
    assert any("pass_2" in w or "counter_collection" in w or "results.db" in w for w in result.warnings), result
    good = [c for c in THREE if c in node.manifest(result.workload).counters]
    assert good, "the whole pass is lost with the broken one"
    for counter in good:
        right = expected(counter.removesuffix("_sum"), "copy", "fma")
        read = [row[0] for row in node.rows(result.workload, counter)]
        assert all(value in (None, true) for value, true in zip(read, right, strict=True))


def test_a_profiler_that_hangs_and_ignores_sigterm_is_ended(node: Node) -> None:
    for timeout_s in (3, 12, 48):
        run = node.has(trouble="hang@pass_1").profile(*launching("copy"), timeout_s=timeout_s)
        if run.steps_done:
            break  # the run for times had ended before
    assert (run.state, run.partial, run.steps_done) == ("failed", True, 1), run
    assert f"{timeout_s} s" in (run.problem or ""), run.problem
    assert not alive(node)


def test_a_hanging_run_can_be_cancelled_and_ends_with_the_server(node: Node) -> None:
    node.has(trouble="hang")
    run = node.profile(*launching("copy"), wait_s=1)
    while run.state == "queued":
        run = get_run(node.store, run.run_id, wait_s=0.1)
    waiting = node.profile(*launching("copy"), wait_s=0)
    assert (run.state, waiting.state) == ("running", "queued")
    ended = cancel_run(node.store, run.run_id)
    assert (ended.state, ended.workload) == ("cancelled", None)
    launch.stop_all()
    assert not alive(node)
    assert get_run(node.store, run.run_id).state == "cancelled"
    assert get_run(node.store, waiting.run_id).state == "failed"


def alive(node: Node) -> list[int]:
    """Processes of stand-ins of this test that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(node.programs).encode() in line:
                found.append(int(entry.name))
    return found


def test_launches_in_another_order_are_matched_by_kernel(node: Node) -> None:
    order = ["tile", "copy", "fma", "copy"]
    result = node.has(trouble="reorder@pass_1").hand(*launching(*order))
    rows = node.rows(result.workload, "d.kernel", "SQ_WAVES")
    assert [row[0] for row in rows] == [launches.KERNELS[name]["kernel"] for name in order]
    assert [row[1] for row in rows] == expected("SQ_WAVES", *order)


def test_a_kernel_of_one_pass_alone_is_reported(node: Node) -> None:
    result = node.has(trouble="extra_kernel@pass_1").hand(*launching("copy", "fma"))
    passes = node.rows(result.workload, "name", "matched", "unmatched", table="passes")
    assert [row[1:] for row in passes if "pass_1" in row[0]] == [(2, 1)], passes
    assert any("pass_1" in w for w in result.warnings), result.warnings
    assert node.rows(result.workload, "d.kernel", "SQ_WAVES") == [(COPY, 16384.0), (FMA, 1024.0)]


def test_counters_that_are_all_zero_are_named(node: Node) -> None:
    result = node.has(trouble="zeros").hand(*launching("copy"))
    assert any("zero" in w.lower() for w in result.warnings), result.warnings


def test_only_counters_that_were_asked_for_are_missed(node: Node) -> None:
    metrics = ["SQ_WAVES", *THREE]
    run = node.has("0.6.0").profile("--sleep", "2", metrics=metrics, budget_s=7)
    assert run.state == "done", (run.problem, run.output)
    assert run.steps == 2 and any("only 1 of them will run, without" in note for note in run.notes), run.notes
    assert not any("may not know them" in warning for warning in run.warnings), run.warnings


def test_what_a_preset_holds_for_other_gpus_is_no_news_and_what_was_asked_for_by_name_is(node: Node) -> None:
    usual = node.has().profile(*launching("copy"), metrics=["diagnosis"])
    assert usual.state == "done" and not any("not collected" in warning for warning in usual.warnings)
    named = node.profile(*launching("copy"), metrics=["SQ_WAVES", "fabric.pcie_read_bw_gbs"])
    assert any("fabric.pcie_read_bw_gbs: not collected, gfx90a" in warning for warning in named.warnings)


def test_a_counter_that_the_profiler_leaves_out_is_named(node: Node) -> None:
    run = node.has(trouble="unknown").profile(*launching("copy"), metrics=THREE[:2])
    assert run.state == "done", run.problem
    (lost,) = set(THREE[:2]) - set(node.manifest(run.workload).counters)
    assert any(lost in warning for warning in run.warnings), run.warnings


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


def test_clocks_are_sampled_while_the_program_runs_and_kept_with_the_workload(node: Node) -> None:
    """The card's files are made by hand: at 1200 of 1700 MHz, held back by heat."""
    node.has()
    card = node.folder / "root/sys/bus/pci/devices/0000:03:00.0"
    (card / "hwmon/hwmon0").mkdir(parents=True)
    for name, value in (("freq1_input", 1_200_000_000), ("power1_average", 300_000_000), ("temp2_input", 105_000)):
        (card / "hwmon/hwmon0" / name).write_text(f"{value}\n")
    (card / "gpu_metrics").write_bytes(struct.pack("<HBB108xQ", 120, 1, 3, 1 << 36))
    properties = next((node.folder / "root/sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
    for path in properties.parents[1].glob("*/properties"):
        text = re.sub(r"(?m)^location_id .*\n", "", path.read_text())
        path.write_text(f"{text.rstrip()}\nlocation_id 768\n")
    done = node.profile(*launching("copy"))
    assert done.state == "done", done.problem
    rows = node.rows(done.workload, "step", "clock_mhz", "power_w", "temperature_c", "held_back", table="clocks")
    assert set(rows) == {
        ("timing", 1200.0, 300.0, 105.0, "temperature"),
        ("pass_1", 1200.0, 300.0, 105.0, "temperature"),
    }
    assert any("limited by heat" in warning for warning in node.manifest_warnings(done.workload))
    told = query_counters(node.store, "SELECT any_value(held_back), max(clock_mhz) FROM clocks", workload=done.workload)
    assert told.table.rows == [["temperature", 1200.0]]
