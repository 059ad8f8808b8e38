"""A target of which only occupancy is known: import, times and SQL work, and one sentence says what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.catalogue import targets
from rooflens.analysis.catalogue.metrics import targets_with_metrics
from rooflens.analysis.store.store import Store
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile
from rooflens.tools.query_counters import query_counters

SAMPLE = Path(__file__).resolve().parents[2] / "server" / "samples" / "yax_before"
AMD = [t for t in targets.targets() if targets.gpu(t).vendor == "amd"]
ONLY_OCCUPANCY = [t for t in AMD if t not in targets_with_metrics() and targets.gpu(t).occupancy]


@pytest.fixture(params=ONLY_OCCUPANCY)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(target: str, tmp_path: Path) -> Store:
    """A profile whose sysinfo.csv names the target."""
    folder = tmp_path / "profile"
    shutil.copytree(SAMPLE, folder)
    sysinfo = folder / "sysinfo.csv"
    sysinfo.write_text(sysinfo.read_text().replace("gfx90a", target))
    made = Store(tmp_path / "store")
    import_profile(made, str(folder), name="w")
    return made


def test_times_and_counters_are_there_in_sql(store: Store) -> None:
    times = query_counters(store, "SELECT kernel, duration_ns FROM dispatches").table
    assert [row[1] for row in times.rows] == [13164269]
    counted = query_counters(store, "SELECT sum(SQ_WAVES) > 0 FROM counters").table
    assert counted.rows == [[True]]


@pytest.mark.parametrize("tool", [compute_metrics, compute_roofline, diagnose_bottleneck])
def test_what_needs_formulas_says_what_is_missing_and_what_works(tool: object, store: Store, target: str) -> None:
    with pytest.raises(BadInput, match=f"No metrics, rooflines or rules are known for {target}.*query_counters"):
        tool(store, "w")  # type: ignore[operator]
