"""A recording of the marked example kernels on an H200: find_hotspots names the lines that are marked as hot."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tools.base.results import Result
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck

RECORDING = ROOT / "server" / "samples" / "h200_lines" / "lines.csv.gz"
sys.path.insert(0, str(ROOT / "eval"))
import hot_lines  # noqa: E402

NEAR = 3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("lines"))
    stored(store, RECORDING, "lines")
    return store


@pytest.fixture(scope="module")
def scores(recorded: Store) -> dict[str, hot_lines.Score]:
    """Of every second marked kernel; eval/hot_lines.py scores all."""
    marked = [*hot_lines.hot_lines().items()][::2]
    return {kernel: hot_lines.score(recorded, "lines", kernel, places) for kernel, places in marked}


def test_marked_lines_are_among_the_first_three_and_most_first(scores: dict[str, hot_lines.Score]) -> None:
    late = {name: (s.rank, s.first, s.pct) for name, s in scores.items() if s.rank is None or s.rank > NEAR}
    assert not late
    second = {name: (s.rank, s.first) for name, s in scores.items() if s.rank != 1}
    assert len(second) <= 1, second


def test_every_kernel_has_samples_enough_to_rank_lines(scores: dict[str, hot_lines.Score]) -> None:
    assert len(scores) >= 7 and all(s.samples > 1000 for s in scores.values())


@pytest.mark.parametrize("tool", [compute_metrics, compute_roofline, diagnose_bottleneck])
def test_what_needs_launches_says_where_samples_alone_are_shown(recorded: Store, tool: Callable[..., Result]) -> None:
    with pytest.raises(BadInput, match="find_hotspots shows their lines"):
        tool(recorded, "lines")
