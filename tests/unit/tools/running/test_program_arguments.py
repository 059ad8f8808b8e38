"""What programs inherit, what must not be shown, and commands that are refused before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, NotAllowed, NotFound, Problem
from rooflens.tools.running.command import (
    HIDDEN,
    check_command,
    inherited_environment,
    redact,
    secrets,
    without_prefixes,
)

NEEDED = {
    "PATH": "/bin", "HOME": "/home/u", "LANG": "C", "LC_ALL": "C", "LD_LIBRARY_PATH": "/opt/rocm/lib",
    "LD_PRELOAD": "libemulated.so",
    "CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "1", "HSA_ENABLE_SDMA": "0",
    "ROCM_PATH": "/opt/rocm", "OMP_NUM_THREADS": "4", "SLURM_PROCID": "3", "OMPI_COMM_WORLD_RANK": "3",
    "TMPDIR": "/scratch", "VIRTUAL_ENV": "/venv", "PYTHONPATH": "/lib",
    "CONDA_PREFIX": "/conda/envs/a", "CONDA_EXE": "/conda/bin/conda", "CONDA_SHLVL": "1", "_CE_CONDA": "",
    "UV_PROJECT_ENVIRONMENT": "/venv", "UV_CACHE_DIR": "/scratch/uv", "MASTER_ADDR": "localhost", "RANK": "0",
    "TORCHINDUCTOR_CACHE_DIR": "/scratch/inductor", "TORCH_LOGS": "+dynamo", "TRITON_CACHE_DIR": "/scratch/triton",
    "HF_HOME": "/scratch/hf", "HF_HUB_OFFLINE": "1", "CC": "gcc-13", "CUDACXX": "/usr/local/cuda/bin/nvcc",
}  # fmt: skip
SECRET = (
    "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "OPENAI_API_KEY", "DB_PASSWORD", "MY_PASSWD", "SLURM_JWT",
    "CUDA_LICENSE_KEY", "ROOFLENS_TOKEN", "npm_config__auth_TOKEN", "SESSION_COOKIE", "KMP_SECRET", "MPI_CREDENTIALS",
    "HF_TOKEN", "UV_PUBLISH_TOKEN", "UV_INDEX_INTERNAL_PASSWORD", "CONDA_TOKEN", "VLLM_API_KEY",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_what_names_a_secret_is_neither_passed_nor_shown(name: str) -> None:
    found = {**NEEDED, name: "hunter2hunter2"}
    assert inherited_environment(found) == NEEDED
    assert secrets(found, {}) == ["hunter2hunter2"]
    assert redact("it is hunter2hunter2.", secrets(found, {})) == f"it is {HIDDEN}."


def test_programs_get_what_they_need_to_run_and_nothing_else() -> None:
    others = dict.fromkeys(("EDITOR", "DISPLAY", "HTTPS_PROXY", "SSH_AUTH_SOCK", "BASH_ENV"), "x")
    assert inherited_environment(NEEDED | others) == NEEDED


def test_a_withheld_value_that_looks_random_is_hidden_whatever_its_name() -> None:
    found = {"CANARY": "Zx81qPf03LmNbV5t7Rw9", "EDITOR": "vim", "PWD": "/home/user/project123456789"}
    assert secrets(found, {}) == ["Zx81qPf03LmNbV5t7Rw9"]


def test_an_address_with_a_login_is_neither_passed_nor_shown() -> None:
    found = {
        "UV_INDEX_URL": "https://user:hunter2@packages.example/simple",
        "HF_ENDPOINT": "https://hub.example:8443/a",
    }
    assert inherited_environment(found) == {"HF_ENDPOINT": found["HF_ENDPOINT"]}
    assert secrets(found, {}) == [found["UV_INDEX_URL"]]


def test_secrets_of_the_caller_are_hidden_the_longest_first_and_plain_values_are_not() -> None:
    given = {"HF_TOKEN": "hf_abcdefgh", "N": "1024", "A_KEY": "abc"}
    assert secrets({}, given) == ["hf_abcdefgh"]
    hidden = secrets({"A_TOKEN": "abcdef", "B_TOKEN": "abcdefghij"}, {})
    assert redact("abcdefghij abcdef", hidden) == f"{HIDDEN} {HIDDEN}"


def test_variables_that_a_step_must_not_see_are_left_out() -> None:
    assert without_prefixes({"ROCPROF_X": "1", "PATH": "p"}, ["ROCPROF_"]) == {"PATH": "p"}
    assert without_prefixes({"PATH": "p"}, []) == {"PATH": "p"}


PATH = {"PATH": os.environ["PATH"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with one program and one file that is none."""
    (tmp_path / "matmul").write_text("#!/bin/sh\n")
    (tmp_path / "matmul").chmod(0o755)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "build").mkdir()
    return tmp_path


def test_a_program_by_path_or_on_the_search_path_is_accepted(folder: Path) -> None:
    assert check_command(["./matmul", "-n", "8"], str(folder), {}, PATH) == str(folder)
    assert check_command([str(folder / "matmul")], "/", {}, PATH) == "/"
    assert check_command(["sh", "-c", ":"], None, {}, PATH) == str(Path.cwd())
    assert check_command(["matmul"], "/", {"PATH": str(folder)}, PATH) == "/"


def test_arguments_may_be_anything_but_nul(folder: Path) -> None:
    for argument in ("; rm -rf x", "$(id)", "a\nb", "--", "-o", "", "'", "*"):
        assert check_command(["./matmul", argument], str(folder), {}, PATH) == str(folder)


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        ([], BadArgument, "The command is empty"),
        ([" "], BadArgument, "The command is empty"),
        (["-o", "x"], BadArgument, "begins with a dash"),
        (["--output=/etc/passwd"], BadArgument, "begins with a dash"),
        (["./matmul", "a\0b"], BadArgument, "NUL"),
        (["./matmull"], NotFound, "does not exist.*Near names: matmul"),
        (["matmul"], NotFound, "./matmul is in"),
        (["pythn3"], NotFound, "Near names: .*python3"),
        (["./matmul -n 8"], NotFound, "does not exist"),
        (["matmul -n 8"], NotFound, "no shell splits them"),
        (["./notes.txt"], NotAllowed, "chmod \\+x"),
        (["./build"], NotAllowed, "not an executable file"),
        (["~/app"], BadArgument, "needs a shell"),
    ],
)
def test_commands_that_cannot_be_run_are_refused(
    folder: Path, command: list[str], kind: type[Problem], words: str
) -> None:
    with pytest.raises(kind, match=words):
        check_command(command, str(folder), {}, PATH)


def test_a_folder_that_is_relative_or_none_is_refused_with_near_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(BadArgument, match=f"did you mean {folder}/build"):
        check_command(["sh"], "build", {}, PATH)
    with pytest.raises(NotFound, match="Near names: build"):
        check_command(["sh"], str(folder / "buildd"), {}, PATH)
    with pytest.raises(NotFound):
        check_command(["sh"], str(folder / "notes.txt"), {}, PATH)


@pytest.mark.parametrize("given", [{"A=B": "x"}, {"": "x"}, {"A B": "x"}, {"A": "x\0"}])
def test_variables_that_no_system_accepts_are_refused(folder: Path, given: dict[str, str]) -> None:
    with pytest.raises(BadArgument):
        check_command(["sh"], str(folder), given, PATH)


def test_a_relative_entry_of_the_search_path_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(NotFound):
        check_command(["matmul"], "/", {"PATH": ".:"}, PATH)
