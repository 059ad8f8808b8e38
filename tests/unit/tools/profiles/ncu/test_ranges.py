"""Filters by ranges, held against NVIDIA's library for reports, which reads the same expressions as ncu itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument
from rooflens.tests.made.nvtx_states import write
from rooflens.tests.standins.ncu_filters import DEFAULT, Launch
from rooflens.tools.running.drivers.ncu.command import expressions, options
from rooflens.tools.running.range_filter import RangeFilter, RangePath, range_filter_of_text

Ask = Callable[..., list[list[int]]]
needs_library = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="needs the package ncu-report (extra cuda)"
)


@pytest.fixture
def ask(recorded: Path, tmp_path: Path) -> Ask:
    """``ask(launches, texts)``: which of up to five launches NVIDIA's library finds within each expression."""

    def asked(launches: Sequence[Launch], texts: Sequence[str], *, process: bool = False) -> list[list[int]]:
        import ncu_report  # type: ignore[import-not-found,unused-ignore]

        path = write((recorded / "small.ncu-rep").read_bytes(), tmp_path / "one.ncu-rep", launches, process=process)
        found = ncu_report.load_report(str(path))[0]
        return [list(found.actions_by_nvtx([text], [])) for text in texts]

    return asked


def pushed(*names: str, domain: str = DEFAULT) -> Launch:
    return Launch("k", pushed={domain: names})


def started(*names: str, domain: str = DEFAULT) -> Launch:
    return Launch("k", started={domain: names})


NAMES = (
    "step", "//", "x[3]", "[x", "a*b", "+", "^x.y|z", "ünïcode", '{"k": 1}', DEFAULT, "a@",
    "aten::mm, seq = 12, op_id = 3",
)  # fmt: skip


@needs_library
@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_any_letters_finds_its_range_and_no_other(ask: Ask, name: str) -> None:
    launches = [pushed(name), started(name), pushed("z", domain="d"), pushed("other"), pushed("x" + name)]
    as_pushed, as_started = ask(launches, expressions(RangePath((name,))))
    assert (as_pushed, as_started) == ([0], [1])


@needs_library
def test_a_path_finds_ranges_directly_within_each_other_and_a_domain_only_its_own(ask: Ask) -> None:
    launches = [
        pushed("step", "forward", "mm"), pushed("step", "x", "forward"), pushed("forward"),
        pushed("step", "forward", domain="li/b"), started("forward"),
    ]  # fmt: skip
    told = {chain: ask(launches, expressions(chain)) for chain in (
        RangePath(("step", "forward")), RangePath(("forward",)), RangePath(("step", "forward"), "li/b")
    )}  # fmt: skip
    assert list(told.values()) == [[[0], [4]], [[0, 1, 2], [4]], [[3], []]]


@needs_library
def test_the_scope_of_a_process_lets_launches_of_other_threads_in(ask: Ask) -> None:
    backward = [Launch("k", elsewhere={DEFAULT: ("step",)}), pushed("step")]
    assert ask(backward, ["step/"]) == [[1]]
    assert ask(backward, ["step/"], process=True) == [[0, 1]]
    one = RangeFilter((RangePath(("step",)),), one_thread=True)
    assert options(one, whole_process=True) == [
        "--nvtx", "--nvtx-push-pop-scope", "process", "--nvtx-include", "step/", "--nvtx-include", "step",
    ]  # fmt: skip
    assert "--nvtx-push-pop-scope" not in options(one, whole_process=False)
    assert "--nvtx-push-pop-scope" not in options(RangeFilter(one.chains), whole_process=True)


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "without a name"), ("a\\b", "backslash"), ("@a", "domain"), ("regex:x", "regular expression"),
     ("-x", "option"), ("x" * 200, "200 characters")],
)  # fmt: skip
def test_a_name_that_ncu_cannot_be_told_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(BadArgument, match=why) as told:
        expressions(RangePath((name,)))
    assert "range_id" in told.value.fix


def test_what_somebody_spelled_is_a_name_or_a_path() -> None:
    assert range_filter_of_text("step") == RangeFilter((RangePath(("step",)),))
    assert range_filter_of_text("step/forward") == RangeFilter(
        (RangePath(("step/forward",)), RangePath(("step", "forward")))
    )
    assert range_filter_of_text("/x") == RangeFilter((RangePath(("/x",)),))
