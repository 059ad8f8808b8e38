"""What counts as a right answer, and what does not."""

from __future__ import annotations

import pytest

from rooflens.eval.agent.games.judging import Truth, right, said

TIME = Truth("number", 3.911136, "ms", 0.002)
BYTES = Truth("number", 62914560, "bytes")
COUNT = Truth("number", 17, tolerance=0.0)
NAME = Truth("name", "fma_sweep<1024>")
NAMES = Truth("names", ["async_copy<4, 0, 1>", "bulk_copy"])


@pytest.mark.parametrize(
    ("answer", "truth", "counts"),
    [
        ("3.911 ms", TIME, True),
        ("3911136 ns", TIME, True),
        ("3,911,136 ns", TIME, True),
        ("about 3.91e-3 s", TIME, True),
        ("3.911", TIME, True),
        ("3.911 GB", TIME, False),
        ("3.95 ms", TIME, False),
        ("60 MiB", BYTES, True),
        ("62.9 MB", BYTES, True),
        ("60 MB", BYTES, False),
        ("17", COUNT, True),
        ("17 kernels", COUNT, True),
        ("17.1", COUNT, False),
        ("seventeen", COUNT, False),
        ("nan", COUNT, False),
        ("", COUNT, False),
        ("13.4 percent", Truth("number", 13.378, "%"), True),
        ("24.67 TFLOP/s", Truth("number", 24675, "GFLOP/s"), True),
        ("24675 GFLOPS", Truth("number", 24675, "GFLOP/s"), True),
        ("0.0 GB/s", Truth("number", 0.0, "GB/s"), True),
        ("`fma_sweep<1024>`", NAME, True),
        ("void fma_sweep<1024>(const float *, float *, unsigned long)", NAME, True),
        ("fma_sweep<256>", NAME, False),
        ("H200.", Truth("name", "NVIDIA H200", also=("H200",)), True),
        ("Yes, it is.", Truth("yes_no", True), True),
        ("no", Truth("yes_no", True), False),
        ("perhaps", Truth("yes_no", False), False),
        ("async_copy<4, 0, 1>, bulk_copy", NAMES, True),
        ("bulk_copy and async_copy<4, 0, 1>", NAMES, True),
        ('["bulk_copy", "async_copy<4, 0, 1>"]', NAMES, True),
        ("bulk_copy", NAMES, False),
        ("bulk_copy, async_copy<4, 0, 1>, bulk_read", NAMES, False),
        ("cannot be told", Truth("untold"), True),
        ("Cannot be told.", Truth("untold"), True),
        ("0 GB/s", Truth("untold", unit="GB/s"), False),
        ("cannot be told", COUNT, False),
        ("cannot be told", Truth("yes_no", False), False),
    ],
)
def test_what_counts(answer: str, truth: Truth, counts: bool) -> None:
    assert right(answer, truth) is counts


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("It took long.\nANSWER: 4.25 ms", "4.25 ms"),
        ("**ANSWER: yes**", "yes"),
        ("ANSWER: 1\nNo, wait.\nanswer: 2", "2"),
        ("The answer is 4", None),
        ("", None),
        ("> ANSWER: no", "no"),
        ("ANSWER:\nANSWER:", None),
        ("\n" * 1_000_000 + "!" * 1_000_000 + "\nANSWER: 7", "7"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_the_last_line_that_is_marked_is_the_answer(reply: str, answer: str | None) -> None:
    assert said(reply) == answer
