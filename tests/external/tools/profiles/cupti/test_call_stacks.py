"""Host stacks of calls: of C programs and threads, of each Python here, and that taking them does no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.database import connect
from rooflens.tests.made.cupti import Recording
from rooflens.tests.support.cupti_kit import STANDIN
from rooflens.tools.profiles.cupti.call_stacks import call_stacks
from rooflens.tools.profiles.cupti.read import files_of
from rooflens.tools.profiles.cupti.records import Stage

PYENV = Path("/root/.pyenv/versions")
PYTHONS = sorted({Path(sys.executable).resolve(), *PYENV.glob("3.1[1-4].*/bin/python3")})
SCRIPT = """\
import ctypes, sys, threading
cupti = ctypes.CDLL(sys.argv[1])

class Model:
    def forward(self, n):
        for i in range(n):
            cupti.standin_launch(b"k", 1, 32, 0, 1)  # launch

    def größe(self):
        return [self.forward(2) for _ in range(2)]  # inner

def generated():
    yield Model().größe()

def step():
    for _ in generated():
        pass
    exec(compile("cupti.standin_wait()", "made\\x1b[31m", "exec"))

def recurse(n):
    return recurse(n - 1) if n else cupti.standin_fill(4)

cupti.standin_init()
step()
thread = threading.Thread(target=step, name="other")
thread.start()
thread.join()
recurse(300)
"""


def line_of(text: str, source: str) -> int:
    """The only line of a source with a text."""
    (line,) = [n for n, words in enumerate(source.splitlines(), 1) if text in words]
    return line


def stacks_of(folder: Path) -> dict[int, list[tuple[str, str | None, int | None, str | None]]]:
    """Correlation -> frames of its stack, outermost first, of the only recording in a folder."""
    (folder / "work").mkdir(exist_ok=True)
    con = connect()
    stage = Stage(con, folder / "work")
    found = call_stacks(stage, [stage.read(file, n) for n, file in enumerate(files_of(folder), 3)])
    if found is None:
        return {}
    columns = "c.correlation, f.function, f.file, f.line, f.module"
    rows = con.execute(
        f"SELECT {columns} FROM ({found.calls}) c JOIN ({found.frames}) f USING (stack) ORDER BY c.correlation, f.depth"
    ).fetchall()
    depths = con.execute(f"SELECT min(depth), count(*) - max(depth) FROM ({found.frames}) GROUP BY stack").fetchall()
    assert set(depths) <= {(0, 1)}
    stacks: dict[int, list[tuple[str, str | None, int | None, str | None]]] = {}
    for correlation, *frame in rows:
        stacks.setdefault(correlation, []).append(tuple(frame))
    con.close()
    return stacks


def run(kit, folder: Path, how: str = "return", **more: str) -> subprocess.CompletedProcess[str]:
    env = kit.environment(folder, stacks=True, **more)
    argv = [str(kit.program), "50", how]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("version", [18, 130000])
def test_native_calls_have_functions_and_lines(kits, tmp_path, version):
    assert run(kits(version), tmp_path).returncode == 0
    stacks = stacks_of(tmp_path)
    source = (STANDIN / "program.c").read_text()
    ends = {(stack[-1][0], Path(stack[-1][1] or "").name, stack[-1][2]) for stack in stacks.values()}
    calls = ["standin_copy(1, 1", "standin_fill(1024", "standin_launch(KERNEL, 1024", "standin_launch(KERNEL, i %"]
    calls += ["standin_copy(2", "standin_copy(10", 'standin_launch("after"', "standin_wait();"]
    above = source[: source.index("int main")].count("\n")
    wanted = {("main", "program.c", above + line_of(call, source.split("int main")[1])) for call in calls}
    assert ends == wanted | {("backward", "program.c", line_of('standin_launch("backward"', source))}
    assert all("libcupti" not in (module or "") for stack in stacks.values() for *_, module in stack)
    # A launch is two calls with stacks: of cudaMalloc and of cudaLaunchKernel, not of the driver's function within.
    assert len(stacks) == 2 * 53 + 5


def test_a_program_whose_file_is_removed_after_it_ran_keeps_its_functions_and_lines(kit, tmp_path):
    built, folder = tmp_path / "build" / "program", tmp_path / "rec"
    built.parent.mkdir()
    folder.mkdir()
    shutil.copy(kit.program, built)
    env = kit.environment(folder, stacks=True)
    assert subprocess.run([str(built), "50", "return"], env=env, capture_output=True, timeout=120).returncode == 0
    there = stacks_of(folder)
    built.unlink()
    assert stacks_of(folder) == there and any(stack[-1][2] for stack in there.values())
    (kept,) = folder.glob("*.module")
    assert kept.read_bytes() == kit.program.read_bytes() and kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_python_calls_have_functions_and_lines(kit, tmp_path, python):
    script = tmp_path / "träin.py"
    script.write_text(SCRIPT, "utf-8")
    env = kit.environment(tmp_path / "rec", stacks=True)
    ran = subprocess.run(
        [python, script, kit.library], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    stacks = list(stacks_of(tmp_path / "rec").values())
    file = str(script)

    def frame(function: str, text: str) -> tuple[str, str, int, None]:
        return function, file, line_of(text, SCRIPT), None

    inner = [frame("step", "for _ in generated"), frame("generated", "yield"), frame("Model.größe", "# inner")]
    if python.resolve().name == "python3.11":  # a comprehension is a function there
        inner.append(("Model.größe.<locals>.<listcomp>", *inner[-1][1:]))
    inner.append(frame("Model.forward", "# launch"))
    waits = [frame("step", "exec("), ("<module>", "made", 1, None)]
    (main,) = [n for n, line in enumerate(SCRIPT.splitlines(), 1) if line == "step()"]
    outer = ("<module>", file, main, None)
    assert stacks[:8] == [[outer, *inner]] * 8
    assert stacks[8] == [outer, *waits]
    assert [s[-len(inner) :] for s in stacks[9:17]] == [inner] * 8
    assert [f[0] for f in stacks[9][:3]] == ["Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run"]
    assert stacks[17][3:] == waits
    assert stacks[18] == [frame("recurse", "return recurse")] * 128  # the innermost
    assert len(stacks) == 19


def test_another_python_is_told(kit, tmp_path):
    for python in PYENV.glob("3.10.*/bin/python3"):
        (tmp_path / "train.py").write_text(SCRIPT, "utf-8")
        env = kit.environment(tmp_path / "rec", stacks=True)
        argv = [python, tmp_path / "train.py", kit.library]
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert b"stacks of this Python cannot be read: 3.10" in files_of(tmp_path / "rec")[0].read_bytes()
        return
    pytest.skip("needs Python 3.10")


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_stacks_do_not_change_how_a_program_ends(bench, kit, tmp_path, how):
    ran = run(kit, tmp_path / "rec", how)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "launched 53\n", "")
    done = bench.load(tmp_path / "rec")
    assert done.dispatches == 53
    assert not any("exit handlers" in warning for warning in done.warnings)
    info = files_of(tmp_path / "rec")[0].read_bytes()
    assert b"timestamp_end_ns=" in info and b"monotonic_end_ns=" in info


def test_a_program_with_a_subscriber_of_its_own_is_recorded_without_stacks(bench, kit, tmp_path):
    ran = run(kit, tmp_path / "rec", STANDIN_SUBSCRIBED="1")
    assert (ran.returncode, ran.stderr) == (0, "")
    done = bench.load(tmp_path / "rec")
    assert done.dispatches == 53
    assert any("cuptiSubscribe: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS" in warning for warning in done.warnings)
    assert stacks_of(tmp_path / "rec") == {}


def test_no_stacks_unless_asked_for(kit, tmp_path):
    kit.run(tmp_path / "rec")
    assert stacks_of(tmp_path / "rec") == {}


def test_stacks_that_are_damaged_do_no_harm(tmp_path):
    made = Recording()
    none, long = made.name(""), made.name("f\x1b[31m" + "x" * 5000)
    for values in [(1, long, long, 1 << 31, 1, 0, 0), (2, 77, 77, 0, 2, none, 0), (3, none, 0, 0, 2, long, 1 << 63)]:
        made.work("FRAM", "<6IQ", *values)
    made.work("FRAM", "<6IQ", 4, 0, 0, 0, 2, made.name("/dev/zero"), 8).work("FRAM", "<6IQ", 1, 0, 0, 0, 9, 0, 0)
    for node in [(1, 1, 1, 0), (2, 3, 2, 0), (3, 2, 3, 0), (4, 0, 4, 0), (5, 99, 1, 0)]:
        made.work("NODE", "<4I", *node)
    for site in [(10, 1, 1, 0), (11, 1, 2, 0), (12, 1, 4, 0), (13, 1, 5, 0), (14, 1, 77, 0)]:
        made.work("SITE", "<4I", *site)
    made.put(tmp_path / "node_1.record")
    stacks = stacks_of(tmp_path)
    assert {len(stack) for stack in stacks.values()} == {1, 201}
    assert stacks[12] == [("0x8", None, None, "/dev/zero")]
    assert len(stacks[13][0][0]) <= 300 and "\x1b" not in stacks[13][0][0]


def test_taking_a_known_stack_is_quick(kit, tmp_path):
    """Far below what would disturb a program; how long it takes is printed."""
    source = tmp_path / "loop.c"
    source.write_text(
        "#include <stdio.h>\n#include <time.h>\nvoid standin_init(void);\nvoid standin_fill(int);\n"
        "int deep(int n) { if (n) return deep(n - 1) + 1; struct timespec a, b; clock_gettime(1, &a);\n"
        "for (int i = 0; i < 200000; i++) standin_fill(4); clock_gettime(1, &b);\n"
        'printf("%ld", (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec); return 0; }\n'
        "int main(void) { standin_init(); return deep(30) - 30; }\n"
    )
    library = str(kit.library)
    argv = [os.environ.get("CC", "cc"), "-O1", "-fno-optimize-sibling-calls", str(source), "-o", str(tmp_path / "loop")]
    subprocess.run([*argv, library, f"-Wl,-rpath,{kit.library.parent}"], check=True, capture_output=True)
    took = {}
    for stacks in (False, True):
        env = kit.environment(tmp_path / f"rec{stacks}", stacks=stacks, ROOFLENS_RECORD_FLUSH_MS="1000")
        took[stacks] = int(subprocess.run([tmp_path / "loop"], env=env, check=True, capture_output=True).stdout) / 2e5
    print(f"{took[True] - took[False]:.0f} ns for a stack")
    assert took[True] - took[False] < 50_000
