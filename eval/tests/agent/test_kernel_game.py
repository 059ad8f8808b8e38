"""The game of kernels, played on the CPU: with C in the place of a GPU's kernels, and with a stand-in for PyTorch."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from rooflens.analysis.store.store import Store
from rooflens.eval.agent import play as program
from rooflens.eval.agent.games import kernels, scores, workbench
from rooflens.eval.agent.games.dialogue import Cost
from rooflens.eval.agent.games.server import Refused
from rooflens.eval.agent.games.tasks import NoTask, Task, tasks
from rooflens.eval.agent.games.workbench import Limits, Measured
from rooflens.eval.agent.players.script import Part, ScriptPlayer, SilentPlayer
from rooflens.eval.agent.players.turn import Call
from rooflens.tests.standins.install import install, machine
from rooflens.tools import profile_command as profiling
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.get_run import get_run
from rooflens.tools.running import processes

HERE = Path(__file__).resolve().parent
LIMITS = Limits(seconds=100, memory_bytes=2 << 30)
WRONG = "#include <stddef.h>\nvoid solve(const double *in, double *out, size_t n) { (void)in; (void)out; (void)n; }\n"

needs_cc = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("c++")), reason="needs a C and a C++ compiler (cc, c++)"
)


@pytest.fixture
def task() -> Task:
    (found,) = tasks(HERE / "tasks")
    return found


def sends(*sources: str) -> ScriptPlayer:
    """A player that sends these sources, one a round, whatever it is told."""
    parts = [Part(f"Round {n} of", lambda *_, s=s: f"Then:\n```c\n{s}\n```") for n, s in enumerate(sources[1:], 1)]
    first = Part("Task ", lambda *_: f"First:\n```c\n{sources[0]}\n```")
    return ScriptPlayer([first, *parts, Part("", lambda *_: "Done.")], lambda content, where: None)


@needs_cc
@pytest.mark.anyio
async def test_the_fastest_right_version_counts_and_every_round_is_told(task: Task, tmp_path: Path) -> None:
    assert task.best is not None
    player = sends(WRONG, "this is no C", task.best.read_text())
    played = await kernels.play(player, task, with_tools=False, limits=LIMITS, transcripts=tmp_path)
    assert (played.rounds, played.right_rounds, played.problem) == (3, 1, None)
    assert played.speedup is not None and played.of_best is not None
    lines = [json.loads(line) for line in (tmp_path / "column_sums.jsonl").read_text().splitlines()]
    told = [line["told"] for line in lines if line["what"] == "measured"]
    assert "Wrong" in told[0] and "does not compile" in told[1] and "error" in told[1] and "Right" in told[2]
    found = scores.of_kernels([played])
    assert found["solved"] == 1 and found["tokens_estimated"]
    assert "column_sums" in scores.table({"without tools": found})


@needs_cc
@pytest.mark.anyio
async def test_a_player_without_a_version_or_with_a_wrong_one_solves_nothing(task: Task) -> None:
    for player in (SilentPlayer("I would tile it."), sends(WRONG)):
        played = await kernels.play(player, task, with_tools=False, limits=LIMITS)
        assert played.best_ns is None and played.speedup is None
        assert scores.of_kernels([played])["solved"] == 0


@pytest.mark.anyio
async def test_a_task_of_kernelbench_is_played_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE / "stand_in_torch"))
    (task,) = tasks(HERE / "kernelbench")
    assert task.name == "1_Square" and task.best is None
    new = task.slow.read_text().replace("class Model(", "class ModelNew(").partition("def get_inputs")[0]
    wrong, right = (
        new.replace("* self.factor", "* 2"),
        new.replace("torch.relu(x) * self.factor", "torch.relu(x * self.factor)"),
    )
    player = ScriptPlayer(
        [Part("Task ", lambda *_: f"```python\n{wrong}```"), Part("Wrong", lambda *_: f"```python\n{right}```"),
         Part("Right", lambda *_: "Done.")],
        lambda content, where: None,
    )  # fmt: skip
    played = await kernels.play(player, task, with_tools=False, limits=LIMITS)
    assert (played.rounds, played.right_rounds, played.problem) == (2, 1, None)
    assert played.speedup is not None and played.of_best is None


def test_speed_up_is_a_ratio_of_medians_and_its_mean_is_geometric() -> None:
    done = [
        kernels.Played("a", "cuda", Cost(), 1, 1, slow_ns=800, best_known_ns=100, best_ns=200),
        kernels.Played("b", "cuda", Cost(), 2, 1, slow_ns=200, best_known_ns=100, best_ns=100),
        kernels.Played("c", "hip", Cost(), 3, 0, slow_ns=100, best_known_ns=50),
    ]
    found = scores.of_kernels(done)
    assert found["solved"] == 2 and found["rounds"] == 6
    assert found["speedup"] == pytest.approx(8**0.5) and found["of_best_known"] == pytest.approx(0.5**0.5)
    assert Measured(True, 0.0, (5.0, 1.0, 3.0)).median_ns == 3.0


def test_nothing_is_built_or_run_without_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["kernels", "--tasks", str(HERE / "tasks")]) == 2
    assert "--run-code" in capsys.readouterr().err


def test_a_folder_without_tasks_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text("x = 1\n")
    with pytest.raises(NoTask, match="get_inputs"):
        tasks(tmp_path)
    with pytest.raises(NoTask, match="not there"):
        tasks(tmp_path / "missing")


def test_the_last_block_of_a_fitting_language_is_the_version() -> None:
    reply = "```sh\nmake\n```\n```cuda\nfirst\n```\ntext\n```cuda\nsecond\n```\n```text\nnot this\n```"
    assert kernels.code(reply, ("cuda", "")) == "second\n"
    assert kernels.code("```\nplain\n```", ("cuda", "")) == "plain\n"
    assert kernels.code("no block", ("cuda", "")) is None
    assert kernels.code("```cuda\nnever closed", ("cuda", "")) is None


def test_only_the_programs_of_the_game_can_be_profiled(task: Task, tmp_path: Path) -> None:
    bench = kernels.Bench(task, tmp_path, LIMITS)
    bench._kept["./slow"] = tmp_path
    asked = {"command": ["./slow"], "cwd": "/", "env": {"LD_PRELOAD": "x"}, "kernel": "k", "timeout_s": 1e6}
    passed = bench.gate(Call("1", "profile_command", asked))
    assert passed["command"][0] == str(tmp_path / "program") and passed["cwd"] == str(tmp_path)
    assert passed["kernel"] == "k" and "env" not in passed and passed["timeout_s"] == LIMITS.seconds
    for command in (["sh", "-c", "true"], ["./slow", "--x"], ["./candidate"], "./slow", None, [["./slow"]]):
        with pytest.raises(Refused, match="nothing else"):
            bench.gate(Call("1", "profile_command", {"command": command}))


def python(*lines: str) -> list[str]:
    return [sys.executable, "-S", "-c", "\n".join(lines)]


def test_a_program_that_does_not_end_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    # One child stays in the program's group, the other leaves it for a session of its own.
    command = ["sh", "-c", "sleep 1000 & echo $! > one; setsid sh -c 'echo $$ > two; sleep 1000' & wait"]
    for seconds in (3, 12, 48):
        ended = workbench.run(command, tmp_path, Limits(seconds=seconds))
        if (tmp_path / "two").exists() and (tmp_path / "two").read_text().endswith("\n"):
            break  # it had the time to start them all
    assert ended.why == f"stopped after {seconds} s"
    for name in ("one", "two"):
        pid = int((tmp_path / name).read_text())
        assert not psutil.pid_exists(pid) or not processes.running(psutil.Process(pid))


def test_a_program_that_takes_too_much_memory_is_stopped(tmp_path: Path) -> None:
    hungry = python("import time", "held = bytearray(b'x') * (300 << 20)", "time.sleep(1000)")
    assert "MiB of memory" in str(workbench.run(hungry, tmp_path, Limits(memory_bytes=100 << 20)).why)
    refused = workbench.run(hungry, tmp_path, Limits(memory_bytes=100 << 20, address_space=True))
    assert refused.why is not None and "MemoryError" in refused.errors


def test_a_program_sees_no_secret_and_its_flood_of_output_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYER_KEY", "a-key-that-nobody-may-see")
    told = workbench.run(python("import os", "print(sorted(os.environ))", "print(os.getcwd())"), tmp_path, LIMITS)
    assert told.why is None and "PLAYER_KEY" not in told.output and str(tmp_path) in told.output
    flood = workbench.run(python("print('x' * 3_000_000)", "print('last')"), tmp_path, LIMITS)
    assert len(flood.output) <= workbench.OUTPUT_BYTES and flood.output.endswith("last\n")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ('{"right": true, "error": 0, "times_ns": [2.0, 1.0, 3.0]}', None),
        ('noise\n{"right": false, "error": 0.5, "times_ns": []}', None),
        ('{"right": true, "error": 0, "times_ns": []}', "no time above zero"),
        ('{"right": true, "error": 0, "times_ns": [-1.0]}', "no time above zero"),
        ('{"right": true}', "not a report"),
        ("[" * 100_000, "not a report"),
        ("", "not a report"),
    ],
)
def test_what_a_driver_prints_is_read_with_care(output: str, problem: str | None) -> None:
    found = workbench.measured(workbench.Ended(output, "", None))
    assert (problem is None) == (found.problem is None)
    assert problem is None or problem in str(found.problem)


@needs_cc
@pytest.mark.anyio
async def test_a_version_is_profiled_by_the_game_and_explained_by_the_tools(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in plays AMD's profiler: it runs the program and makes up what it counted.
    (tmp_path / "versions").mkdir()
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    programs = install(tmp_path / "rocm", version="1.3.2")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    roots = Roots(base=machine(tmp_path / "root"), search=str(programs), site=None)
    monkeypatch.setattr(profiling, "Roots", lambda: roots)
    store = Store(tmp_path / "store")
    bench = kernels.Bench(task, tmp_path / "versions", LIMITS, repeat=1)
    assert bench.measure(task.slow.read_text(), "slow").right
    asked = {"command": ["./slow"], "metrics": ["l2.hit_rate_pct"], "name": "v0", "cwd": "/", "wait_s": 45}
    passed = bench.gate(Call("1", "profile_command", asked))
    done = profiling.profile_command(store, **passed)
    while done.state in ("queued", "running"):
        done = get_run(store, done.run_id, wait_s=45)
    assert done.state == "done", done
    assert store.resolve("v0").name == "v0"
