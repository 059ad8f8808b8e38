"""A report holds the answers of the tools as they are, within limits that it tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.catalogue.metrics import by_name
from rooflens.analysis.store.store import Manifest, Store, write_table
from rooflens.server.mcp.toolbox import functions
from rooflens.tests.support import recordings, rooflines
from rooflens.tools.base.results import Result, Table, table
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.compute_roofline import compute_roofline
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.report.collect import MOST_WORKLOADS, ReportLimits, collect


def test_sections_are_the_answers_of_the_tools_unchanged(samples: Store) -> None:
    report = collect(samples, functions(), ["yax_before", "yax_after"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["created"])
    before, after = report["workloads"]
    kernels = list_workloads(samples, before["id"], limit=500)
    assert before["sections"]["kernels"]["answer"] == kernels.model_dump(exclude={"next"})
    roofline = compute_roofline(samples, after["id"], datatype="all", detail="full", limit=500)
    assert after["rooflines"][0]["answer"] == roofline.model_dump(exclude={"next"})
    (pair,) = report["comparisons"]
    compared = compare_workloads(samples, before["id"], after["id"], detail="full")
    assert pair["answer"] == compared.model_dump(exclude={"next"})
    assert (pair["baseline"], pair["candidate"]) == (before["id"], after["id"])


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a report has of the example program on an H200."""
    store = Store(tmp_path_factory.mktemp("nvidia"))
    recordings.stored(store, recordings.KERNELS, "nvidia")
    (workload,) = collect(store, functions(), ["nvidia"])["workloads"]
    return dict(workload)


def test_each_diagnosed_kernel_has_its_sentence_and_its_accounts_in_the_vendors_words(nvidia: dict[str, Any]) -> None:
    workload = nvidia
    section = workload["sections"]["diagnosis"]
    kernel, said = section["answer"]["kernels"][0], section["more"][0]
    assert section["answer"]["answer"].startswith(said["sentence"]) and said["limit"]
    (account,) = [one for one in said["accounts"] if one["view"] == "The lifetime of its warps"]
    assert account["parts"] == kernel["wave_time"] != []


def test_the_memory_chart_and_the_meanings_are_those_of_the_catalogue(samples: Store, nvidia: dict[str, Any]) -> None:
    for workload in (*collect(samples, functions(), ["yax_before"])["workloads"], nvidia):
        known = by_name(workload["arch"])
        memory = workload["memory"]
        figures = {row[memory["answer"]["table"]["columns"].index("name")] for row in memory["answer"]["table"]["rows"]}
        shown = {link[way] for link in memory["links"] for way in ("read", "write", "both") if way in link}
        assert shown <= figures <= workload["meanings"].keys() <= known.keys()
        keys = {unit["key"] for unit in memory["units"]}
        assert all(set(link["between"]) <= keys for link in memory["links"])
        metric = known[min(shown)]
        assert workload["meanings"][metric.name] == [metric.title, metric.unit, metric.description]


def test_a_section_without_data_says_why(samples: Store) -> None:
    (workload,) = collect(samples, functions(), ["yax_after"])["workloads"]
    occupancy = workload["sections"]["occupancy"]
    assert "answer" not in occupancy
    assert "does not state the registers" in occupancy["problem"]["what"] and occupancy["problem"]["fix"]
    assert "timeline" not in workload["sections"] and workload["events"] is None


def test_theory_is_asked_for_beside_measured_ceilings_only_and_what_is_cut_is_told(tmp_path: Path) -> None:
    counters = dict.fromkeys(rooflines.counters("gfx90a"), 1.0)
    rows = [{"kernel": kernel, "duration_ns": 1000.0, **counters} for kernel in ("a", "b", "c")]
    measured = [(0, "HBMBw", "GB/s", 1300.0)]
    for name, ceilings, sources in (
        ("theory", [], ["theoretical"]),
        ("measured", measured, ["empirical", "theoretical"]),
    ):
        store = Store(tmp_path / name)
        rooflines.publish(store, rows, ceilings=ceilings)
        cut = ReportLimits(kernels=2) if ceilings else ReportLimits()
        report = collect(store, functions(), ["latest"], cut)
        assert ("kernels, table: 2 rows of 3." in report["cut"]) == bool(report["cut"]) == bool(ceilings)
        (workload,) = report["workloads"]
        found = [each["answer"]["ceiling_source"] for each in workload["rooflines"] if each["key"] == "operations"]
        assert found == sources, name


def test_unknown_repeated_and_too_many_workloads_are_refused_with_advice(samples: Store) -> None:
    with pytest.raises(NotFound, match="Near names: yax_before"):
        collect(samples, functions(), ["yax_befor"])
    with pytest.raises(BadArgument, match="'yax_after' is named twice"):
        collect(samples, functions(), ["yax_after", "yax_before", "yax_after"])
    with pytest.raises(BadArgument, match=f"Name from 1 to {MOST_WORKLOADS}"):
        collect(samples, functions(), ["latest"] * (MOST_WORKLOADS + 1))


def test_hot_lines_are_asked_for_the_kernels_that_were_sampled_most(tmp_path: Path) -> None:
    asked: list[tuple[str | None, str]] = []

    class Hot(Result):
        kernels: Table
        hotspots: Table

    def find_hotspots(store: Store, workload: str, kernel: str | None = None, by: str = "line", **_: Any) -> Hot:
        asked.append((kernel, by))
        others = table({"number": None}, [] if kernel else [[f"#{n}"] for n in range(2, 9)])
        return Hot(kernels=others, hotspots=table({"instruction": None}, [[by]]))

    tools = {**functions(), "find_hotspots": find_hotspots}
    store = Store(tmp_path)
    with store.draft() as folder, connect() as con:
        write_table(con, "SELECT 'k' AS kernel, 1 AS count", folder / "samples.parquet")
        store.publish(folder, Manifest(name="sampled", format="made", vendor="amd"))
    (workload,) = collect(store, tools, ["sampled"])["workloads"]
    kernels = [None, "#2", "#3", "#4", "#5"]
    assert sorted(asked, key=str) == sorted([(k, by) for k in kernels for by in ("line", "instruction")], key=str)
    assert [hot["answer"]["hotspots"]["rows"] for hot in workload["hotspots"]] == [[["line"]]] * 5
    assert [hot["instructions"]["rows"] for hot in workload["hotspots"]] == [[["instruction"]]] * 5
    without = {name: tool for name, tool in tools.items() if name != "find_hotspots"}
    assert collect(store, without, ["sampled"])["workloads"][0]["hotspots"] == []
