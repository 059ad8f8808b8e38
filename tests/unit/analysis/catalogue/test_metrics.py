"""The catalogue holds together: names, units, sources, formulas that parse, counters and ids that exist."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, BadInput, NotFound
from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue import targets
from rooflens.analysis.catalogue.formula import references
from rooflens.analysis.catalogue.metrics import LAUNCH
from rooflens.analysis.catalogue.search import select_metrics

CDNA = ("gfx908", "gfx90a", "gfx942", "gfx950")
OLDER, NEWER = (None, "3.3"), (None, "3.8")
TARGETS = catalog.targets_with_metrics()
EVERY = [(target, metric) for target in TARGETS for metric in catalog.metrics(target)]


@pytest.mark.parametrize("target", TARGETS)
def test_names_and_ids_are_unique_on_a_target(target: str) -> None:
    names = [m.name for m in catalog.metrics(target)]
    ids = [m.id for m in catalog.metrics(target) if m.per == "dispatch"]
    assert len(names) == len(set(names))
    assert len(ids) == len(set(ids))


def test_every_metric_has_a_name_by_the_rules_a_unit_a_meaning_and_a_source() -> None:
    named = re.compile(rf"({'|'.join(catalog.SUBSYSTEMS)})\.[a-z0-9_]+")
    assert [m.name for _, m in EVERY if not named.fullmatch(m.name) or m.subsystem not in catalog.SUBSYSTEMS] == []
    assert [m.name for _, m in EVERY if len(m.description) < 30 or len(m.source) < 10 or not m.unit] == []
    assert [m.name for _, m in EVERY if m.name.endswith("_pct") != (m.unit == "%")] == []


@pytest.mark.parametrize("target", TARGETS)
def test_formulas_parse_and_use_only_counters_facts_terms_and_launch_columns(target: str) -> None:
    family = targets.gpu(target).family  # a fact that one target of it lacks leaves a figure empty there
    stated = {fact for t in catalog.families()[family] for fact in targets.gpu(t).facts}
    profiled = {
        "cu_per_gpu", "simd_per_cu", "se_per_gpu", "wave_size", "max_waves_per_cu", "max_sclk", "max_mclk",
        "total_l2_chan",
        "lds_banks_per_cu", "sqc_per_gpu", "pipes_per_gpu", "num_xcd", "num_hbm_channels", "memory_bus_bits",
    }  # fmt: skip
    facts = stated | profiled
    known = facts | set(catalog.terms(target)) | {*LAUNCH, "duration_ns"}
    written = [("terms", f) for stated in catalog.alternatives(target).values() for f in stated]
    written += [(m.name, f) for m in catalog.metrics(target) for f in (m.num, m.den) if f]
    written += [(name, normal.den) for name, normal in catalog.normalizations(target).items()]
    for name, formula in written:
        names = references([formula])[formula]
        assert not [n for n in names if n not in known and not catalog.is_counter(target, n)], (target, name)
    for metric in catalog.metrics(target):
        for formula in filter(None, (metric.peak, metric.finish)):
            assert references([formula])[formula] <= facts | {"value", *metric.uses}, (target, metric.name)


OURS = ("4", "19", "30", "40")
"""Panels that 3.3 does not have; 19 and 40 are in no release."""


@pytest.mark.parametrize("target", CDNA)
def test_ids_and_texts_are_those_of_the_oracle(target: str, shared: Path) -> None:
    model = {"gfx908": "MI100", "gfx90a": "MI200", "gfx942": "MI300X_A1", "gfx950": "MI350"}[target]
    with gzip.open(shared / "oracle" / f"synth_a__{model}.csv.gz", "rt") as file:
        expected = {r["metric_id"] for r in csv.DictReader(file) if r["metric_id"][0].isdigit()}
    older = [m for m in catalog.metrics(target) if m.release in OLDER and str(m.panel) not in OURS]
    ours = {m.id for m in older if m.per == "dispatch"}
    assert ours == {i for i in expected if not re.match(r"18\.(?!1\.)", i)}


@pytest.mark.parametrize("target", CDNA)
def test_newer_ids_are_those_of_release_3_8(target: str, shared: Path) -> None:
    model = {"gfx908": "MI100", "gfx90a": "MI200", "gfx942": "MI300A_A1", "gfx950": "MI350"}[target]
    with gzip.open(shared / "oracle38" / f"vcopy__{model}.csv.gz", "rt") as file:
        expected = {r["metric_id"] for r in csv.DictReader(file)}
    here = [m for m in catalog.metrics(target) if m.per == "dispatch" and m.panel not in (19, 40)]
    newer = [m for m in here if m.release in NEWER]
    assert {m.newer_id or m.id for m in newer} == {i for i in expected if not re.match(r"18\.(?!1\.)", i)}


def test_an_id_finds_what_bears_it_in_either_release() -> None:
    assert [m.name for m in select_metrics("gfx90a", ["2.1.1"])] == ["valu.sol_iops", "matrix.sol_flops_bf16"]
    assert [m.name for m in select_metrics("gfx950", ["11.2.4"])] == ["valu.co_issue_pct", "valu.dual_issue_pct"]
    assert [m.name for m in select_metrics("gfx950", ["30.14.3"])] == ["hbm.path_bw_gbs"]


def test_every_counter_named_on_gfx90a_is_one_that_rocprofv3_lists(shared: Path) -> None:
    listed = set(re.findall(r"[A-Za-z0-9_]+", (shared / "rocprofv3" / "list_avail_gfx90a.txt").read_text()))
    named = {c.split("@")[0].removesuffix("[*]").removesuffix("_sum").removesuffix("_ACCUM")
             for m in catalog.metrics("gfx90a") for c in catalog.counters("gfx90a", m)}  # fmt: skip
    only_gfx950 = {c for c in named - listed if c.startswith(("SQ_VMEM_", "SQC_DCACHE_INFLIGHT"))}
    assert named - listed - only_gfx950 == set()


@pytest.mark.parametrize(("word", "count"), [("17", 49), ("17.3", 19), ("17.3.7", 1), ("4.2", 5), ("l2.req", 1)])
def test_metrics_are_found_by_panel_table_id_and_name(word: str, count: int) -> None:
    assert len(select_metrics("gfx90a", [word])) == count


def test_a_selection_keeps_the_order_asked_for_and_repeats_nothing() -> None:
    chosen = [m.id for m in select_metrics("gfx90a", ["17.3.1", "2.1.0", "17.3.1"])]
    assert chosen == ["17.3.1", "2.1.0"]


def test_unknown_words_and_targets_name_near_ones() -> None:
    with pytest.raises(BadArgument, match="l2.hit_rate_pct"):
        select_metrics("gfx90a", ["l2.hitrate_pct"])
    with pytest.raises(NotFound, match="gfx90a"):
        targets.gpu("gfx90b")


def test_a_metric_that_a_target_lacks_is_answered_by_those_of_its_own_subsystem() -> None:
    """The rate of the vector units, and not that of the matrix cores, whose name is closer."""
    with pytest.raises(BadArgument) as lacking:
        select_metrics("gfx90a", ["valu.flops_f64"])
    assert "Similar here: valu.roofline_flops_f64." in lacking.value.text


def test_a_formula_that_does_not_parse_is_named() -> None:
    with pytest.raises(BadInput, match=r"1 \+"):
        references(["1 +"])
