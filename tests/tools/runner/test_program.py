"""What programs inherit, and what must not be shown."""

from __future__ import annotations

import pytest
from rooflens.tools.runner.program import HIDDEN, inherited, redacted, secrets, without

NEEDED = {
    "PATH": "/bin", "HOME": "/home/u", "LANG": "C", "LC_ALL": "C", "LD_LIBRARY_PATH": "/opt/rocm/lib",
    "LD_PRELOAD": "libemulated.so",
    "CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "1", "HSA_ENABLE_SDMA": "0",
    "ROCM_PATH": "/opt/rocm", "OMP_NUM_THREADS": "4", "SLURM_PROCID": "3", "OMPI_COMM_WORLD_RANK": "3",
    "TMPDIR": "/scratch", "VIRTUAL_ENV": "/venv", "PYTHONPATH": "/lib",
}  # fmt: skip
SECRET = (
    "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "OPENAI_API_KEY", "DB_PASSWORD", "MY_PASSWD", "SLURM_JWT",
    "CUDA_LICENSE_KEY", "ROOFLENS_TOKEN", "npm_config__auth_TOKEN", "SESSION_COOKIE", "KMP_SECRET", "MPI_CREDENTIALS",
)  # fmt: skip


def test_programs_get_what_they_need_to_run() -> None:
    assert inherited(NEEDED) == NEEDED


@pytest.mark.parametrize("name", SECRET)
def test_what_names_a_secret_is_neither_passed_nor_shown(name: str) -> None:
    found = {**NEEDED, name: "hunter2hunter2"}
    assert inherited(found) == NEEDED
    assert secrets(found, {}) == ["hunter2hunter2"]
    assert redacted("it is hunter2hunter2.", secrets(found, {})) == f"it is {HIDDEN}."


@pytest.mark.parametrize("name", ["EDITOR", "DISPLAY", "HTTPS_PROXY", "SSH_AUTH_SOCK", "BASH_ENV"])
def test_what_nobody_needs_is_not_passed(name: str) -> None:
    assert name not in inherited({name: "x"})


def test_a_withheld_value_that_looks_random_is_hidden_whatever_its_name() -> None:
    found = {"CANARY": "Zx81qPf03LmNbV5t7Rw9", "EDITOR": "vim", "PWD": "/home/user/project123456789"}
    assert secrets(found, {}) == ["Zx81qPf03LmNbV5t7Rw9"]


def test_secrets_of_the_caller_are_hidden_and_short_or_plain_values_are_not() -> None:
    given = {"HF_TOKEN": "hf_abcdefgh", "N": "1024", "A_KEY": "abc"}
    assert secrets({}, given) == ["hf_abcdefgh"]


def test_the_longest_secret_goes_first() -> None:
    hidden = secrets({"A_TOKEN": "abcdef", "B_TOKEN": "abcdefghij"}, {})
    assert redacted("abcdefghij abcdef", hidden) == f"{HIDDEN} {HIDDEN}"


def test_variables_that_a_step_must_not_see_are_left_out() -> None:
    assert without({"ROCPROF_X": "1", "PATH": "p"}, ["ROCPROF_"]) == {"PATH": "p"}
    assert without({"PATH": "p"}, []) == {"PATH": "p"}
