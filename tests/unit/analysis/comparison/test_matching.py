"""Which kernels are taken for each other: by name, by name without parameters, by likeness, as groups."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.analysis.comparison.matching import match, pair_groups
from rooflens.analysis.comparison.time_ratio import KernelTotals


def known(*names: str) -> list[KernelTotals]:
    """Kernels, the first longest."""
    return [KernelTotals(name, 1, 1, 1000.0 - i) for i, name in enumerate(names)]


def test_template_arguments_and_parameters_may_change() -> None:
    found = match(
        known("void stencil<1>(float*)", "void stencil<4>(float*)"), known("void stencil<4>(float*, int)", "fill()")
    )
    assert [(p.before[0], p.after[0], p.how) for p in found.pairs] == [
        ("void stencil<4>(float*)", "void stencil<4>(float*, int)", "parameters")
    ]
    assert found.only_before == ["void stencil<1>(float*)"] and found.only_after == ["fill()"]


def sized(name: str, launches: int, threads: float | None) -> KernelTotals:
    """A kernel of 1 us a launch."""
    return KernelTotals(name, launches, launches, 1000.0 * launches, threads)


def test_kernels_that_only_share_words_of_their_names_are_not_paired() -> None:
    """reduce_kernel and scal_kernel have a likeness of 0.67 and nothing in common."""
    norm = sized("void at::native::reduce_kernel<512, 1, MaxNanFunctor>(int)", 96, 131_072)
    scale = sized("void scal_kernel<float>(int)", 240, 256)
    found = match([norm, sized("gemm", 1, 1)], [scale, sized("gemm", 1, 1)])
    assert [p.how for p in found.pairs] == ["same_name"]
    assert (found.only_before, found.only_after) == ([norm.name], [scale.name])


@pytest.mark.parametrize(
    ("threads", "paired"), [(256 * 99, True), (256 * 100, False), (2, False), (3, True), (None, True)]
)
def test_similar_names_are_no_versions_of_each_other_where_sizes_differ_by_100(
    threads: float | None, paired: bool
) -> None:
    both = sized("gemm", 1, 1)
    found = match([sized("scale_rows", 5, 256), both], [sized("scale_rows2", 5, threads), both])
    assert ("similar" in [p.how for p in found.pairs]) is paired
    assert found.only_after == ([] if paired else ["scale_rows2"])


def test_a_group_that_is_no_pair_of_patterns_or_shares_a_kernel_is_refused() -> None:
    def all_of(_: str) -> list[str]:
        return ["a"]

    with pytest.raises(BadArgument, match="cannot be read"):
        pair_groups(known("a"), known("a"), {"x": ["a"]}, (all_of, all_of))
    with pytest.raises(BadArgument, match="share a kernel"):
        pair_groups(known("a"), known("a"), {"x": ["a", "a"], "y": ["a", "a"]}, (all_of, all_of))


def test_several_kernels_that_one_replaces_are_a_group_if_launched_equally_often() -> None:
    split, whole = (
        known("row_max(float*)", "row_sum(float*)", "divide(float*)", "copy"),
        known("softmax_row(int)", "copy"),
    )
    fused = match(split, whole)
    assert [(p.how, len(p.before), len(p.after)) for p in fused.pairs] == [("fused", 3, 1), ("same_name", 1, 1)]
    assert fused.pairs[0].label == "3 kernels -> softmax_row" and not fused.only_before and not fused.only_after
    back = match(whole, split).pairs[0]
    assert (back.how, len(back.before), len(back.after)) == ("fused", 1, 3)
    once = [KernelTotals(k.name, 7, 7, k.total_ns) if "divide" in k.name else k for k in split]
    assert all(p.how != "fused" for p in match(once, whole).pairs), "not one round of launches"
