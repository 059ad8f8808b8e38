"""The recorder in a program: what it writes, what is left of it when the program dies, and that it never stops one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests import ROOT
from rooflens.tests.support.waiting import until
from rooflens.tools.profiles.cupti.records import SUFFIX


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("version", [18, 130000])
def test_every_launch_is_recorded_with_each_version_of_cupti(bench, kits, tmp_path, version):
    ran = kits(version).run(tmp_path / "rec", launches=5000)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "launched 5003\n", "")
    done = bench.load(tmp_path / "rec")
    assert (done.dispatches, done.kernels, done.warnings) == (5003, 3, [])
    assert bench.manifest(done).tool_version == f"CUPTI {version}"


@pytest.mark.parametrize("how", ["return", "fork", "_exit", "handler"])
def test_a_program_that_ends_by_itself_leaves_everything(bench, kit, tmp_path, how):
    ran = kit.run(tmp_path / "rec", how=how, ROOFLENS_RECORD_FLUSH_MS="100000")
    assert ran.returncode == (3 if how in ("_exit", "handler") else 0)
    assert len(files(tmp_path / "rec")) == 1
    done = bench.load(tmp_path / "rec")
    assert done.dispatches == 8
    assert not any("exit handlers" in warning for warning in done.warnings)


def test_a_kernel_that_never_ended_has_no_time(bench, kit, tmp_path):
    kit.run(tmp_path / "rec", how="running")
    done = bench.load(tmp_path / "rec")
    assert bench.rows(done, "dispatches", "start_ns, end_ns, duration_ns", "kernel = 'after'") == [(None, None, None)]


def handed_over(bench, folder):
    """Launches that can be read by now."""
    with suppress(BadInput):
        return bench.load(folder).dispatches
    return 0


def test_a_killed_program_keeps_what_was_handed_over(bench, kit, tmp_path):
    argv, env = [str(kit.program), "3000", "sleep"], kit.environment(tmp_path / "rec", ROOFLENS_RECORD_FLUSH_MS="20")
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"launched 3003\n"
        until(lambda: handed_over(bench, tmp_path / "rec") == 3003)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    done = bench.load(tmp_path / "rec")
    assert done.dispatches == 3003
    assert any("exit handlers" in warning for warning in done.warnings)


def test_a_program_that_is_killed_before_anything_was_handed_over_says_so(bench, kit, tmp_path):
    ran = kit.run(tmp_path / "rec", how="kill", ROOFLENS_RECORD_FLUSH_MS="100000")
    assert ran.returncode == -signal.SIGKILL
    with pytest.raises(BadInput, match="before CUPTI delivered any records"):
        bench.load(tmp_path / "rec")


@pytest.mark.parametrize(
    ("more", "said"),
    [({"STANDIN_FAILS": "1"}, "cuptiActivityRegisterCallbacks: CUPTI_ERROR_NOT_INITIALIZED"),
     ({"STANDIN_VERSION": "17"}, "libcupti is older than that of CUDA 11.8")],
)  # fmt: skip
def test_where_cupti_fails_the_program_runs_on_and_the_import_says_why(bench, kit, tmp_path, more, said):
    ran = kit.run(tmp_path / "rec", **more)
    assert (ran.returncode, ran.stdout) == (0, "launched 8\n")
    with pytest.raises(BadInput, match=said):
        bench.load(tmp_path / "rec")


@pytest.mark.parametrize("folder", ["relative", "/nowhere/at/all"])
def test_without_a_folder_to_write_to_the_program_runs_on(kit, tmp_path, folder):
    ran = kit.run(tmp_path / "rec", ROOFLENS_RECORD_DIR=folder)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "launched 8\n", "")


def test_a_full_disk_does_not_stop_the_program(kit, tmp_path):
    shell = f"ulimit -f 8; trap '' XFSZ; exec {kit.program} 5000"
    env = kit.environment(tmp_path / "rec")
    ran = subprocess.run(["bash", "-c", shell], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout) == (0, "launched 5003\n")
    assert files(tmp_path / "rec")[0].stat().st_size <= 8192


def test_files_are_the_users_own_and_no_link_is_followed(kit, tmp_path):
    kit.run(tmp_path / "rec")
    (file,) = files(tmp_path / "rec")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.name.startswith(f"{os.uname().nodename}_")


def test_each_process_of_a_program_writes_a_file_of_its_own(bench, kit, tmp_path):
    env = kit.environment(tmp_path / "rec")
    script = f"for r in 1 0; do RANK=$r CUDA_VISIBLE_DEVICES=$r {kit.program} $((3 + r)); done"
    subprocess.run(["bash", "-c", script], env=env, check=True, capture_output=True, timeout=120)
    assert len(files(tmp_path / "rec")) == 2
    done = bench.load(tmp_path / "rec")
    # The ranks ran in the order 1, 0; each calls its GPU 0, but they are two.
    found = bench.rows(done, "dispatches", "DISTINCT device_id, ordinal", "kernel LIKE '%axpy%' AND ordinal > 4")
    assert found == [(1, 5)]
    assert bench.rows(done, "dispatches", "count(DISTINCT pid), count(DISTINCT device_id)") == [(2, 2)]


def test_the_recorder_compiles_without_a_warning(kit, tmp_path):
    source = ROOT / "tools" / "running" / "drivers" / "cupti" / "recorder.c"
    include = kit.library.parent.parent / "include"
    (tmp_path / "builtin_types.h").touch()
    argv = [shutil.which("cc") or "gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}"]
    ran = subprocess.run([*argv, "-isystem", str(include), str(source)], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
