"""Kernels' names as a person writes them: of a PyTorch training step on an H200, and of other libraries."""

from __future__ import annotations

import csv

import pytest

from rooflens.analysis.base.kernel_names import SHORT, distinct, names_shortened_to, short
from rooflens.tests import DATA
from rooflens.tests.support.waiting import at_most
from rooflens.tools.profiles.merging.demangled_names import demangle_name

MANGLED = (DATA / "h200_training_step_kernels.txt").read_text().splitlines()
"""The names as ncu gives them with --print-kernel-base mangled."""
RECORDED = [demangle_name(name) for name in MANGLED]
"""As every reader puts them into the store."""
GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase {amp}, "
    "at::native::GeluType)::{first}::operator{space}()() const::{second}::operator{space}()() const::{third}, "
    "std::array<char {star}, 2>>(int, T2, T3)"
)
GELU_BY = {
    "gnu": GELU.format(
        amp="&", star="*", space="", first="{lambda()#2}", second="{lambda()#4}", third="{lambda(c10::BFloat16)#1}"
    ),
    "nvidia": GELU.format(
        amp="&", star="*", space=" ", first="[lambda() (instance 2)]", second="[lambda() (instance 4)]",
        third="[lambda(c10::BFloat16) (instance 1)]",
    ),
    "llvm": GELU.format(
        amp="&", star="*", space="", first="'lambda0'()", second="'lambda2'()", third="'lambda'(c10::BFloat16)"
    ),
}  # fmt: skip


def test_what_a_kernel_computes_is_left_of_its_name() -> None:
    with (DATA / "short_kernel_names.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    assert {row["full"]: short(row["full"]) for row in rows} == {row["full"]: row["short"] for row in rows}


@pytest.mark.parametrize("compiler", GELU_BY)
def test_a_lambda_is_called_by_the_function_that_it_stands_in_and_its_types(compiler: str) -> None:
    assert short(GELU_BY[compiler]) == "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl(BFloat16)>"


def test_the_kernels_of_a_training_step_are_short_and_no_two_look_alike() -> None:
    shown = distinct(RECORDED)
    assert len(RECORDED) == 43 and len(set(shown.values())) == 43
    assert max(map(len, RECORDED)) > 400 and max(map(len, shown.values())) <= 80
    assert sum(len(name) <= SHORT for name in shown.values()) >= 38
    assert "reduce_kernel<128, 4, sum_functor<BFloat16, float, BFloat16>>" in shown.values()
    assert not any(name.startswith("_Z") for name in shown.values())


def test_kernels_that_look_alike_get_what_they_differ_in() -> None:
    stem = (
        "void ns::very_long_kernel_name_for_the_update<ns::detail::Functor<float, {}>, ns::Second<float, {}>, int>(int)"
    )
    names = [stem.format(i, j) for i in (1, 2) for j in (3, 4)]
    shown = distinct(names)
    assert short(names[0]) == short(names[1]) and len(set(shown.values())) == 4
    assert shown[names[0]] == "very_long_kernel_name_for_the_update<Functor<float, 1>, Second<float, 3>, int>"


def test_kernels_that_differ_only_in_what_is_never_shown_keep_their_full_names() -> None:
    names = ["a::scale(float*)", "b::scale(float*)", "scale(double*)", "scale"]
    shown = distinct(names)
    assert len(set(shown.values())) == 4 and shown["a::scale(float*)"] == "a::scale(float*)"


def test_what_tells_launches_apart_stays_behind_the_name() -> None:
    name = "void ns::gemm<4>(float*) [65536 x 256, 40 VGPRs]"
    assert short(name) == "gemm<4> [65536 x 256, 40 VGPRs]"
    other = name.replace("40", "48")
    assert set(distinct([name, other]).values()) == {short(name), short(other)} and names_shortened_to(
        short(name), [name, other]
    ) == [name]


def test_a_kernel_is_found_by_the_form_that_was_shown() -> None:
    for name, shown in distinct(RECORDED).items():
        assert names_shortened_to(shown, RECORDED) == [name]


def test_a_name_that_is_nobodys_short_form_means_none() -> None:
    assert names_shortened_to("elementwise", RECORDED) == [] and names_shortened_to("", RECORDED) == []


@pytest.mark.parametrize(
    "name",
    ["<" * 9000, "a<" * 5000, "a::" * 5000, " " * 9000 + "x", "f<" + "int, " * 3000 + ">",
     "[lambda(" * 2000, "_Z" + "N" * 4000, "_ZN1aI" + "S_" * 3000, "x_0d1" + "1" * 5000 + "!", "_Z1fI" + "J" * 3000,
     "a const" * 1000, "\\", "_Z"],
)  # fmt: skip
def test_hostile_names_cost_little(name: str) -> None:
    with at_most(2):
        assert isinstance(short(name), str)
