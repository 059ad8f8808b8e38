"""Marks of hot lines in the example kernels: which lines they mean, and how an answer is scored by them."""

from __future__ import annotations

import re
from pathlib import Path

import hot_lines
import pytest

LEAST = 14
"""Kernels whose hot line is known."""
COPIES = {"divergence", "icache_heavy"}
"""Kernels of which many copies of the code are equally hot."""


def test_marks_name_kernels_and_stand_at_code() -> None:
    marked = hot_lines.hot_lines()
    kernels = set(re.findall(r'\.name = "(\w+)"', "".join(f.read_text() for f in hot_lines.KERNELS.glob("*.cu"))))
    assert set(marked) <= kernels and len(marked) >= LEAST
    for kernel, places in marked.items():
        assert 1 <= len(places) <= 3 or kernel in COPIES, kernel
        for file, line in places:
            code = (hot_lines.KERNELS / file).read_text().splitlines()[line - 1].split("//")[0].strip()
            assert code.endswith((";", "}", ")")), (kernel, file, line)


def test_a_mark_means_its_own_line_or_the_next_where_it_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("x = 1; // hot: one, two\n  // hot: one\n\ty = 2;\nz = 3; // hot, but no mark\n")
    assert hot_lines.hot_lines(tmp_path) == {"one": [("a.cu", 1), ("a.cu", 3)], "two": [("a.cu", 1)]}


@pytest.mark.parametrize(("places", "expected"), [([("a.cu", 7)], 2), ([("b.cu", 7)], None), ([], None)])
def test_a_rank_is_that_of_the_first_row_at_an_expected_place(
    places: list[tuple[str, int]], expected: int | None
) -> None:
    assert hot_lines.rank([None, "src/a.cu:7", "/src/a.cu:8"], places) == expected
