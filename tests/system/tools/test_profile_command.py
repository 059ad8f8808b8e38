"""profile_command, get_run and cancel_run in one process, with a stand-in for perf and the real one where it is."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, MissingTool, NotFound
from rooflens.analysis.comparison.experiment_log import entries
from rooflens.analysis.store.store import Store
from rooflens.tests.standins.perf import install
from rooflens.tests.support.waiting import ended, until
from rooflens.tools import profile_command as profiling
from rooflens.tools.cancel_run import cancel_run
from rooflens.tools.device.machine.survey import Machine
from rooflens.tools.get_run import RunResult, get_run
from rooflens.tools.profile_command import profile_command
from rooflens.tools.query_counters import query_counters
from rooflens.tools.running import start as launch
from rooflens.tools.running.program_revision import identify_binary
from rooflens.tools.running.run_state import ProfileRun, read_record

METRICS = ["task-clock", "page-faults"]
Profile = Callable[..., RunResult]


@pytest.fixture
def profile(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profile]:
    """``profile(code, ...)`` profiles Python code on the processor."""
    (runtime := tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'bin')}:{os.environ['PATH']}")

    def run(code: str, *arguments: str, **more: object) -> RunResult:
        command = [sys.executable, "-c", code, *arguments]
        found = profile_command(store, command, **{"gpu": "cpu", "metrics": METRICS, **more})  # type: ignore[arg-type]
        return found if "wait_s" in more else ended(store, found)

    yield run
    launch.stop_all()


def test_a_profiled_command_becomes_a_workload_and_its_record_says_how(
    store: Store, profile: Profile, tmp_path: Path
) -> None:
    more = {"name": "sums", "tags": ["first"], "env": {"SIZE": "3"}, "cwd": str(tmp_path)}
    more |= {"hypothesis": "the loop\nwaits", "change": "unrolled"}
    done = profile("print(sum(range(10**5)))", repeats=2, **more)
    assert (done.state, done.steps_done, done.steps, done.problem) == ("done", 2, 2, None)
    assert "2 runs of the program under perf" in done.notes[0]
    found = store.resolve("sums")
    assert found.id == done.workload and found.tags == ["first"] and found.arch == "cpu" and found.vendor == "cpu"
    assert found.dispatches == 2
    assert found.command == f"{sys.executable} -c 'print(sum(range(10**5)))'"
    assert "page-faults" in found.counters
    assert done.kernels and done.kernels.rows[0][1] == Path(sys.executable).name.split(".")[0]
    assert done.next[0].arguments["workload"] == done.workload
    assert get_run(store, done.run_id).workload == done.workload
    assert not (store.run_folder(done.run_id) / "out").exists(), "outputs are not needed any more"
    run = read_record(store.run_folder(done.run_id))
    assert isinstance(run, ProfileRun)
    assert (run.name, run.command, run.cwd, run.tags) == ("sums", found.command, str(tmp_path), ["first"])
    assert (run.profiler, run.request.target, run.steps) == ("perf", "cpu", ["run_1", "run_2"])
    assert "page-faults" in run.counters["run_1"] and (run.variables, run.change) == (["SIZE"], "unrolled")
    noted = [(e.kind, e.workload, e.hypothesis, e.change, e.outcomes) for e in entries(store)]
    assert noted == [("profile", done.workload, "the loop waits", "unrolled", [])]
    rows = query_counters(store, "SELECT workload, baseline, kernel, hypothesis, change, verdict FROM log").table.rows
    assert rows == [[done.workload, None, None, "the loop waits", "unrolled", None]]
    columns = "program, program_bytes, program_sha256, program_modified"
    (row,) = query_counters(store, f"SELECT {columns} FROM log WHERE workload = '{done.workload}'").table.rows
    real = Path(row[0])
    assert (row[1], row[2]) == (real.stat().st_size, hashlib.sha256(real.read_bytes()).hexdigest()) and row[3]


def test_a_call_that_does_not_wait_names_the_run_and_passes_everything_on(
    profile: Profile, store: Store, tmp_path: Path
) -> None:
    (folder := tmp_path / "project").mkdir()
    leave = tmp_path / "leave"
    code = "import os, sys, time; open('seen', 'w').write(repr((sys.argv[1:], os.environ['SIZE'])))\n"
    code += f"while not os.path.exists({str(leave)!r}): time.sleep(0.01)"
    more = {"cwd": str(folder), "env": {"SIZE": "canary-size"}, "wait_s": 0}
    begun = profile(code, "; touch x", "$(id)", "a\nb", "--", "-o", **more)
    assert begun.state in ("queued", "running") and begun.workload is None
    assert begun.next[0].tool == "get_run" and begun.next[0].arguments["run_id"] == begun.run_id
    assert get_run(store, "latest").state in ("queued", "running")
    leave.touch()
    done = ended(store, get_run(store, begun.run_id, wait_s=50))
    assert done.state == "done" and done.elapsed_s >= begun.elapsed_s
    assert (folder / "seen").read_text() == repr((["; touch x", "$(id)", "a\nb", "--", "-o"], "canary-size"))
    assert [p.name for p in folder.iterdir()] == ["seen"]
    assert "SIZE" in _everything(store) and "canary-size" not in _everything(store), "variables by name, not value"
    assert entries(store) == [], "nothing was said of a hypothesis or a change"


def test_a_failing_program_is_told_with_its_last_words_and_no_secret(
    profile: Profile, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "canary-8e7d6c5b4a-secret"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    steal = f"""
import os, sys
sys.stderr.write("line\\n" * 50 + f"{{'DEPLOY_TOKEN' in os.environ}} {{dict(os.environ)}}\\n{secret}\\nno input file")
sys.exit(3)
"""
    failed = profile(steal)
    assert failed.state == "failed" and failed.workload is None and not store.scan()[0]
    assert failed.problem and "status 3" in failed.problem
    assert failed.output and failed.output.endswith("no input file") and failed.output.count("\n") < 20
    assert "\nFalse {" in failed.output and "[withheld]" in failed.output
    assert secret not in failed.model_dump_json() and secret not in _everything(store)


def test_the_file_that_is_profiled_is_known_by_its_content(tmp_path: Path) -> None:
    program = tmp_path / "built.py"
    program.write_text("pass")
    identity = identify_binary([sys.executable, "-u", str(program)], str(tmp_path), os.defpath)
    assert identity is not None and identity.path == str(program.resolve())
    assert (identity.size, identity.sha256) == (4, hashlib.sha256(b"pass").hexdigest())
    assert identify_binary(["nothing-of-the-kind"], str(tmp_path), os.defpath) is None


def test_runs_before_a_failure_are_a_partial_workload(store: Store, profile: Profile, tmp_path: Path) -> None:
    code = f"from pathlib import Path; p = Path({str(tmp_path)!r}, 'n'); n = p.exists() and len(p.read_text()) or 0\n"
    failed = profile(f"{code}p.write_text('x' * (n + 1)); raise SystemExit(n == 1)", repeats=3)
    assert (failed.state, failed.partial, failed.steps_done) == ("failed", True, 1)
    found = store.resolve(failed.workload or "")
    assert found.dispatches == 1 and "partial" in found.tags and "1 of 3 runs" in found.warnings[0].text


def test_a_run_can_be_cancelled_while_it_waits_for_another(store: Store, profile: Profile) -> None:
    first = profile("import time; time.sleep(600)", wait_s=0)
    until(lambda: get_run(store, first.run_id).state == "running")
    second = profile("pass", wait_s=0)
    until(lambda: "waiting for the processor: 1 run" in get_run(store, second.run_id).progress)
    assert get_run(store, second.run_id).state == "queued"
    assert cancel_run(store, second.run_id).state == "cancelled"
    ended = cancel_run(store, first.run_id)
    assert ended.state == "cancelled" and ended.workload is None
    assert "had ended already" in cancel_run(store, first.run_id).notes[-1]


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        ({"cwd": "relative"}, BadArgument, "not an absolute path"),
        ({"metrics": ["no such metric"]}, BadArgument, "no such metric"),
        ({"profiler": "perff"}, NotFound, "perf"),
        ({"gpu": None, "profiler": "ncu"}, MissingTool, "No NVIDIA GPU"),
        ({"kernel": "abc"}, BadArgument, "kernel"),
        ({"launches": [3]}, BadArgument, "range"),
        ({"launches": [3, 2]}, BadArgument, "range"),
        ({"name": "latest"}, BadArgument, "newest"),
        ({"tags": ["a\x1b[2J"]}, BadArgument, "tag"),
        ({"env": {"A=": "x"}}, BadArgument, "variable"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(
    store: Store,
    profile: Profile,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, object],
    kind: type[Exception],
    words: str,
) -> None:
    monkeypatch.setattr(profiling, "survey", lambda roots: _without_gpus(roots))
    with pytest.raises(kind, match=words):
        profile("pass", **more)
    assert not store.runs.exists() or not list(store.runs.iterdir())


def _without_gpus(roots: object) -> Machine:
    from rooflens.tools.device.machine.model import Roots
    from rooflens.tools.device.machine.survey import survey

    machine = survey(Roots())
    return Machine([d for d in machine.devices if d.vendor == "cpu"], machine.profilers, machine.verdicts, [])


def _everything(store: Store) -> str:
    """Every byte in the store."""
    return "".join(p.read_bytes().decode("latin-1") for p in store.root.rglob("*") if p.is_file())
