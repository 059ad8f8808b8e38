"""Launches that stand for all: which are chosen, and that a profiler asked for them counts those and few others."""

from __future__ import annotations

import re

import pytest

from rooflens.tools.running.range_filter import (
    LONGEST_NAME,
    choose_iterations,
    counted_besides,
    exact_names_pattern,
    number_ranges,
)

NAMES = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, "
    "at::native::FillFunctor<float>, std::array<char*, 1ul>)",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN",
    "triton_poi_fused_add_relu_0",
    "copy(double*, int[4]) [clone .kd]",
    "a^b$c.d\\e|f?g+h{2}",
)


def test_each_configuration_gives_as_many_launches_as_are_wanted_after_the_first() -> None:
    loop = [("gemm", shape, 3 * step + i + 1) for step in range(8) for i, shape in enumerate("abc")]
    found = choose_iterations(loop, skip=1, count=2)
    assert found == {"gemm": (4, 5, 6, 7, 8, 9)} == choose_iterations(loop * 4, skip=1, count=2), "of all processes"
    for shape in "abc":
        held = [n for _, s, n in loop if s == shape and n in found["gemm"]]
        assert len(held) == 2 and held[0] > 3, shape


def test_a_rare_configuration_gives_the_last_that_it_has() -> None:
    assert choose_iterations([("k", "a", 1), ("k", "b", 2), ("k", "b", 3)], skip=1, count=5) == {"k": (1, 2, 3)}
    assert choose_iterations([("k", "a", n) for n in range(1, 7)], skip=3, count=4) == {"k": (3, 4, 5, 6)}


def test_kernels_are_given_the_same_numbers_so_that_one_list_counts_little_else() -> None:
    loop = [(kernel, 0, n) for n in range(1, 101) for kernel in ("a", "b", "c")]
    late = [("rare", 0, n) for n in (1, 2, 3)]
    found = choose_iterations([*loop, *late], skip=0, count=3)
    assert set(found.values()) == {(1, 2, 3)}
    assert counted_besides(found) == 0
    assert counted_besides({"a": (1, 2), "b": (2, 3)}) == 2


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((3, 5, 9, 10, 11), "[3,5,9-11]"), ((1,), "[1]"), ((2, 1), "[1-2]"), ((), "[]"), ((7, 7, 8), "[7-8]")],
)
def test_numbers_are_written_as_rocprofv3_reads_them(numbers: tuple[int, ...], text: str) -> None:
    assert number_ranges(numbers) == text


def test_a_pattern_finds_exactly_its_names_and_long_ones_by_their_beginning() -> None:
    pattern = exact_names_pattern(NAMES)
    for name in NAMES:
        assert re.search(pattern, name)
        assert not re.search(pattern, f"x{name}")
        assert not re.search(pattern, f"{name}x") or len(name) > LONGEST_NAME
    assert not re.search(pattern, NAMES[3].replace("4", "5"))
    assert re.fullmatch(r"[^\\]|(\\[\\^$.*+?()\[\]{}|]|[^\\])+", pattern), "ECMAScript escapes nothing else"
    long = "kernel<" + "x" * 3000 + ">"
    assert len(exact_names_pattern([long, long + "y"])) == LONGEST_NAME + 1
    assert re.search(exact_names_pattern([long]), long)
