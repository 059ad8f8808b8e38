"""A target of which only occupancy is known: import, times and SQL work, and one sentence says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.catalogue import targets
from rooflens.analysis.catalogue.metrics import no_formulas, targets_with_metrics
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile
from rooflens.tools.query_counters import query_counters

SAMPLE = ROOT / "server" / "samples" / "yax_before"
AMD = [t for t in targets.targets() if targets.gpu(t).vendor == "amd"]
ONLY_OCCUPANCY = [t for t in AMD if t not in targets_with_metrics() and targets.gpu(t).occupancy]


def of_target(folder: Path, target: str) -> Store:
    """A store with a profile whose sysinfo.csv names the target."""
    shutil.copytree(SAMPLE, folder / "profile")
    sysinfo = folder / "profile" / "sysinfo.csv"
    sysinfo.write_text(sysinfo.read_text().replace("gfx90a", target))
    made = Store(folder / "store")
    import_profile(made, str(folder / "profile"), name="w")
    return made


def test_times_and_counters_are_in_sql_and_what_needs_formulas_says_what_is_missing(tmp_path: Path) -> None:
    target = ONLY_OCCUPANCY[0]
    store = of_target(tmp_path, target)
    times = query_counters(store, "SELECT kernel, duration_ns FROM dispatches").table
    assert [row[1] for row in times.rows] == [13164269]
    counted = query_counters(store, "SELECT sum(SQ_WAVES) > 0 FROM counters").table
    assert counted.rows == [[True]]

    for tool in (compute_metrics, compute_roofline, diagnose_bottleneck):
        with pytest.raises(BadInput, match=f"No metrics, rooflines or rules are known for {target}.*query_counters"):
            tool(store, "w")


def test_a_target_without_a_file_gets_the_metrics_that_need_no_facts_of_the_device(
    samples: Store, tmp_path: Path
) -> None:
    store = of_target(tmp_path, "gfx90c")
    known = compute_metrics(samples, "yax_before", ["*"], limit=5000)
    unknown = compute_metrics(store, "w", ["*"], limit=5000)
    name, value, reason = (known.table.columns.index(column) for column in ("name", "avg", "reason"))
    figures = {row[name]: row[value] for row in unknown.table.rows if row[value] is not None}
    of_known = {row[name]: row[value] for row in known.table.rows}
    assert figures and all(value == of_known[name] for name, value in figures.items())
    assert {"vl1d.hit_rate_pct", "l2.hit_rate_pct", "dispatch.duration_ns"} <= figures.keys()
    lacking = {row[name]: row[reason] for row in unknown.table.rows if of_known[row[name]] is not None}
    assert any(
        "device fact l2_line_bytes unknown" in (why or "") for name, why in lacking.items() if name not in figures
    )
    assert unknown.arch == "gfx90c" and unknown.next == [] and "gpus/gfx90c.toml" in unknown.notes[0]
    with pytest.raises(BadInput, match="gfx90c"):
        compute_roofline(store, "w")


@pytest.mark.parametrize(
    ("name", "like"), [("sm_121", "sm_120"), ("sm_87", "sm_86"), ("gfx1103", "gfx1102"), ("gfx700", None)]
)
def test_an_unknown_target_is_told_which_file_to_add_and_which_target_it_is_like(name: str, like: str | None) -> None:
    assert targets.nearest(name, targets_with_metrics()) == like
    problem = no_formulas("w", name).text
    assert f"gpus/{name}.toml" in problem and "ROOFLENS_CATALOGUE" in problem
    assert ("like =" in problem) == (like is not None)


def test_a_file_that_is_like_another_target_answers_as_that_one(tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "sm_121.toml").write_text(
        'target = "sm_121"\nvendor = "nvidia"\nfamily = "nvidia"\ntitle = "GB10"\nproducts = ["GB10"]\n'
        'validated_on_hardware = false\nlike = "sm_120"\nlacks = ["matrix_f4_ops_per_cu_clk"]\n'
    )
    code = (
        "from rooflens.analysis.catalogue import metrics, targets;"
        "new, old = targets.gpu('sm_121'), targets.gpu('sm_120');"
        "assert old.facts.keys() - new.facts.keys() == {'matrix_f4_ops_per_cu_clk'} and new.occupancy == old.occupancy;"
        "assert len(metrics.metrics('sm_121')) == len(metrics.metrics('sm_120')) > 150"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "ROOFLENS_CATALOGUE": str(tmp_path)})
