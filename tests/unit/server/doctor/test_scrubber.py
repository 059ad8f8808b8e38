"""What says who and where is taken out of texts, and what does not stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.server.doctor.scrubber import Scrubber
from rooflens.tools.running.command import HIDDEN

SCRUBBER = Scrubber(
    {"HF_TOKEN": "planted-hf-value", "MY_FOLDER": "/scratch/mine", "CANARY": "Zx81qPf03LmNbV5t7Rw9", "LANG": "C"},
    Path("/home/alice"), "alice", "node17.cluster.example",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "planted"),
    [
        ("download with planted-hf-value failed", "planted-hf-value"),
        ("canary Zx81qPf03LmNbV5t7Rw9", "Zx81qPf03LmNbV5t7Rw9"),
        ("HTTP 401 for hf_AbCdEfGhIjKlMnOp", "hf_AbCd"),
        ("remote: ghp_0123456789abcdefABCDEF", "ghp_0123"),
        ("Authorization: Bearer abcdef.ghijkl-123", "abcdef.ghijkl"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJhbGci"),
        ("git clone https://bob:hunter2@host.example/x", "hunter2"),
        ("db_password = hunter2hunter2", "hunter2"),
        ('{"api_key": "hunter2 with spaces"}', "hunter2"),
        ("MY_FOLDER=/scratch/mine", "/scratch/mine"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("mail alice.b@site.example about it", "site.example"),
        ("/home/alice/code/train.py:3", "alice"),
        ("/home/bob/code/train.py:3", "bob"),
        ("rank 3 on NODE17 failed", "NODE17"),
        ("node17.cluster.example: connection refused", "node17"),
    ],
)
def test_what_says_who_and_where_is_taken_out(text: str, planted: str) -> None:
    assert planted in text and planted not in SCRUBBER.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEvi",
        "error: hipErrorInvalidValue (1) at kernel.cu:17",
        "grid=128 block=256 registers: 64",
        "/opt/rocm-6.3.0/bin/rocprofv3 --pmc SQ_WAVES TCC_EA0_RDREQ_sum",
        "loss: 0.25, time: 12.5 ms",
        "KeyError: 'layer.0.weight'",
    ],
)
def test_what_a_maintainer_needs_stays(text: str) -> None:
    assert SCRUBBER.text(text) == text


def test_homes_are_shortened_and_the_rest_of_a_path_stays() -> None:
    assert SCRUBBER.text("/home/alice/code/a.py and /home/alicia/b") == "~/code/a.py and /home/[user]/b"


def test_a_command_line_loses_the_words_after_secret_options_and_random_ones() -> None:
    line = "python train.py --hf-token abc --lr 0.1 --api-key=hunter2 Zk81qPf03LmNbV5t7Rw0 /home/alice/data 'a b'"
    assert SCRUBBER.command(line) == (
        f"python train.py --hf-token {HIDDEN} --lr 0.1 --api-key={HIDDEN} {HIDDEN} ~/data a b"
    )


def test_a_user_or_host_whose_name_is_an_everyday_word_leaves_texts_alone() -> None:
    common = Scrubber({}, Path("/"), "root", "localhost")
    assert common.text("root of localhost / here") == "root of localhost / here"
