"""A report holds the answers of the tools as they are, within limits that it tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from rooflens.analysis.problems import BadArgument, NotFound
from rooflens.analysis.store import Store
from rooflens.server.toolbox import FUNCTIONS
from rooflens.tests import rooflines
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.report.collect import MOST_WORKLOADS, Limits, collect


def test_sections_are_the_answers_of_the_tools_unchanged(samples: Store) -> None:
    report = collect(samples, FUNCTIONS, ["yax_before", "yax_after"])
    before, after = report["workloads"]
    kernels = list_workloads(samples, before["id"], limit=500)
    assert before["sections"]["kernels"]["answer"] == kernels.model_dump(exclude={"next"})
    roofline = compute_roofline(samples, after["id"], datatype="all", detail="full", limit=500)
    assert after["rooflines"][0]["answer"] == roofline.model_dump(exclude={"next"})
    (pair,) = report["comparisons"]
    compared = compare_workloads(samples, before["id"], after["id"], detail="full")
    assert pair["answer"] == compared.model_dump(exclude={"next"})
    assert (pair["baseline"], pair["candidate"]) == (before["id"], after["id"])


def test_a_section_without_data_says_why(samples: Store) -> None:
    (workload,) = collect(samples, FUNCTIONS, ["yax_after"])["workloads"]
    occupancy = workload["sections"]["occupancy"]
    assert "answer" not in occupancy
    assert "does not state the registers" in occupancy["problem"]["what"] and occupancy["problem"]["fix"]
    assert "timeline" not in workload["sections"] and workload["events"] is None


def test_theory_is_asked_for_beside_measured_ceilings_only(tmp_path: Path) -> None:
    rows = [{"kernel": "k", "duration_ns": 1000.0, **dict.fromkeys(rooflines.counters("gfx90a"), 1.0)}]
    measured = [(0, "HBMBw", "GB/s", 1300.0)]
    for name, ceilings, sources in (
        ("theory", [], ["theoretical"]),
        ("measured", measured, ["empirical", "theoretical"]),
    ):
        store = Store(tmp_path / name)
        rooflines.publish(store, rows, ceilings=ceilings)
        (workload,) = collect(store, FUNCTIONS, ["latest"])["workloads"]
        found = [each["answer"]["ceiling_source"] for each in workload["rooflines"] if each["key"] == "operations"]
        assert found == sources, name


def test_what_is_cut_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    counters = dict.fromkeys(rooflines.counters("gfx90a"), 1.0)
    rooflines.publish(store, [{"kernel": k, "duration_ns": 1000.0, **counters} for k in ("a", "b", "c")], name="three")
    report = collect(store, FUNCTIONS, ["three"], Limits(kernels=2))
    assert "kernels, table: 2 rows of 3." in report["cut"]
    assert collect(store, FUNCTIONS, ["three"])["cut"] == []


def test_unknown_repeated_and_too_many_workloads_are_refused_with_advice(samples: Store) -> None:
    with pytest.raises(NotFound, match="Near names: yax_before"):
        collect(samples, FUNCTIONS, ["yax_befor"])
    with pytest.raises(BadArgument, match="'yax_after' is named twice"):
        collect(samples, FUNCTIONS, ["yax_after", "yax_before", "yax_after"])
    with pytest.raises(BadArgument, match=f"Name 1 to {MOST_WORKLOADS}"):
        collect(samples, FUNCTIONS, ["latest"] * (MOST_WORKLOADS + 1))
