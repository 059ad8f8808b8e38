"""A program under the sampler of host stacks: it ends, prints and dies as without it, and its stacks are read back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rooflens.tools.profiles.host.own_run import sampled_run
from rooflens.tools.running import sampled_program
from rooflens.tools.running.host_sampling import sampling_prefix

SCRIPT = Path(sampled_program.__file__)
BUSY = """
import sys, time
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
"""


def py_spy() -> str:
    found = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("needs py-spy")
    return found


def sampled(folder: Path, *command: str, sampler: str | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(SCRIPT), str(folder), sampler or py_spy(), "100", "--", *command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_keeps_its_streams_and_its_exit_status(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    ran = sampled(tmp_path, sys.executable, "-c", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "out\n", "err\n")


def test_a_sampler_that_cannot_start_leaves_the_program_alone(tmp_path: Path) -> None:
    ran = sampled(tmp_path, sys.executable, "-c", "print('ran')", sampler="/bin/false")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert json.loads((tmp_path / sampled_program.FACTS).read_text())["refused"] == "py-spy did not start"


UNREADABLE = (
    f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import sampled_program as s; "
    "s._refusal = lambda: 'Operation not permitted'; s.main(sys.argv[1:])"
)


def unreadable(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of a program where no process may read the memory of another."""
    argv = [sys.executable, "-I", "-c", UNREADABLE, str(folder), "py-spy", "100", "--", *command]
    env = {**os.environ, **environment}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)


def test_a_program_whose_memory_cannot_be_read_samples_its_own_threads_and_children(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        BUSY + "import os, threading\n"
        "def other(): work(0.3)\n"
        "def child(): work(0.3)\n"
        "thread = threading.Thread(target=other); thread.start(); work(0.3); thread.join()\n"
        "if (pid := os.fork()) == 0:\n    child(); os._exit(0)\n"
        "os.waitpid(pid, 0); print('done'); sys.exit(3)\n"
    )
    ran = unreadable(tmp_path, sys.executable, str(program))
    assert (ran.returncode, ran.stdout) == (3, "done\n")
    run = sampled_run(tmp_path)
    assert run is not None
    assert run.recorded is not None
    times: dict[tuple[int, int, str], float] = {}
    for span in run.recorded.spans:
        functions = {name for name, *_ in span.stack}
        if found := functions & {"other", "child"} or functions & {"work"}:
            key = (span.pid, span.thread, *found)
            times[key] = times.get(key, 0) + (span.end - span.start) / 1e9
    ((main, *_),) = [who for who in times if who[2] == "work"]
    ((pid, number, _),) = [who for who in times if who[2] == "child"]
    ((owner, thread, _),) = [who for who in times if who[2] == "other"]
    assert owner == main != thread
    assert pid == number != main
    assert all(0.15 < time < 0.6 for time in times.values()), times


def test_a_program_that_samples_itself_keeps_its_own_sitecustomize_and_its_signal(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own')")
    code = "import os, sitecustomize; print(sitecustomize.__file__); os.kill(os.getpid(), 9)"
    ran = unreadable(tmp_path, sys.executable, "-u", "-c", code, PYTHONPATH=str(tmp_path / "own"))
    assert (ran.returncode, ran.stdout) == (-signal.SIGKILL, f"own\n{tmp_path}/own/sitecustomize.py\n")


def test_a_program_ends_with_its_samples_when_it_is_told_to_end(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(BUSY + "print('begun', flush=True)\nwork(50)\n")
    argv = [sys.executable, "-I", str(SCRIPT), str(tmp_path), py_spy(), "100", "--", sys.executable, str(program)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        until = time.monotonic() + 20  # the program can be faster than the sampler
        while "Sampling" not in (tmp_path / sampled_program.LOG).read_text() and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.3)
        os.killpg(child.pid, signal.SIGTERM)  # as a supervisor ends all processes of a run
        assert child.wait(20) in (-signal.SIGTERM, 0)
    assert (tmp_path / sampled_program.SAMPLES).stat().st_size


def test_the_stacks_of_a_program_and_its_forked_child_are_told_apart(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        BUSY + "import os\n"
        "def parent():\n    work(0.6)\n"
        "def child():\n    work(0.4)\n"
        "if os.fork() == 0:\n    child(); os._exit(0)\n"
        "parent(); os.wait()\n"
    )
    assert sampled(tmp_path, sys.executable, str(program)).returncode == 0
    run = sampled_run(tmp_path)
    assert run is not None
    assert run.recorded is not None
    assert run.recorded.began is not None
    times: dict[str, int] = {}
    for span in run.recorded.spans:
        for function in {frame[0] for frame in span.stack}:
            times[function] = times.get(function, 0) + span.end - span.start
    assert 0.3e9 < times["parent"] < 0.8e9
    assert 0.1e9 < times["child"] < 0.6e9
    pids = {function: {s.pid for s in run.recorded.spans if function in [f[0] for f in s.stack]} for function in times}
    assert pids["parent"].isdisjoint(pids["child"])


def test_a_missing_sampler_is_noted_and_the_command_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sampling_prefix(tmp_path) == ()
    run = sampled_run(tmp_path / "host")
    assert run is not None
    assert run.facts["refused"] == os.strerror(2)
