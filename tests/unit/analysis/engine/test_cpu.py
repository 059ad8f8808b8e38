"""Metrics of processors: what perf prints beside its events, from a published run and from made ones."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadArgument, NotFound
from rooflens.analysis.engine.evaluation import Figure
from rooflens.analysis.store.store import Store
from rooflens.tests.support.comparisons import workload
from rooflens.tests.support.figures import evaluate
from rooflens.tools.compute_roofline import compute_roofline

# Quantity of the published table -> our metric and its factor.
PUBLISHED = {
    "cpus_utilized": ("dispatch.cpus_utilized", 1),
    "context_switches_rate": ("dispatch.context_switches_per_s", 1),
    "cpu_migrations_rate": ("dispatch.cpu_migrations_per_s", 1),
    "page_faults_rate": ("dispatch.page_faults_per_s", 1),
    "frequency": ("dispatch.clock_ghz", 1),
    "frontend_idle": ("instruction_fetch.stalled_cycles_pct", 1),
    "backend_idle": ("latency.stalled_cycles_pct", 1),
    "insn_per_cycle": ("dispatch.ipc", 1),
    "stalled_cycles_per_insn": ("latency.stalled_cycles_per_instruction", 1),
    "branches_rate": ("dispatch.branch_rate", 1),
    "branch_miss_rate": ("instruction_fetch.branch_miss_rate_pct", 1),
    "user_plus_sys": ("dispatch.user_system_time_ns", 1e-9),
    "instructions_per_element": ("dispatch.instructions", 1 / 8192**2),
}
SECONDS = {"elapsed": "duration_ns", "user": "user_time", "sys": "system_time"}


def publish(root: Path, runs: list[Mapping[str, float | None]]) -> Store:
    """A store with one workload: a row for each run of a program."""
    store = Store(root)
    rows = [{"kernel": "program", **run} for run in runs]
    workload(store, rows, arch="cpu", facts={}, format="perf", vendor="cpu")
    return store


def value(store: Store, name: str) -> Figure:
    (figure,) = evaluate(store, "w", [name])
    return figure


@pytest.fixture(scope="module")
def published(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, float]]:
    """A run of a matrix addition as its authors printed it, and the derived figures with all their digits."""
    rows = list(csv.DictReader((shared / "published" / "perf_stat.csv").open(encoding="utf-8")))
    run: dict[str, float] = {}
    for row in rows:
        if row["kind"] == "input":
            name = row["quantity"].split(":")[0]
            factor = 1e9 if name in SECONDS else 1e6 if row["unit"] == "msec" else 1
            run[SECONDS.get(name, name)] = float(row["value"]) * factor
    exact = {r["quantity"]: float(r["value"]) for r in rows if r["kind"] == "exact"}
    return publish(tmp_path_factory.mktemp("perf"), [run]), exact


def test_every_exact_figure_of_the_published_run_is_reproduced(published: tuple[Store, dict[str, float]]) -> None:
    store, exact = published
    assert set(exact) == set(PUBLISHED)
    for quantity, expected in exact.items():
        name, factor = PUBLISHED[quantity]
        figure = value(store, name)
        assert figure.value is not None and figure.status == "ok"
        assert figure.value * factor == pytest.approx(expected, rel=1e-9), quantity


def test_events_that_were_not_counted_leave_figures_empty_with_the_reason(tmp_path: Path) -> None:
    store = publish(tmp_path, [{"duration_ns": 1e9, "task-clock": 5e8, "cycles": None, "instructions": 7.0}])
    assert value(store, "dispatch.cpus_utilized").value == 0.5
    unsupported, absent = value(store, "dispatch.ipc"), value(store, "l2.miss_rate_pct")
    assert (
        unsupported.value is None
        and unsupported.status == "not_collected"
        and "have no value" in str(unsupported.reason)
    )
    assert absent.value is None and "cache-misses missing" in str(absent.reason)


def test_there_are_no_rooflines_and_no_waves_and_both_are_said(tmp_path: Path) -> None:
    store = publish(tmp_path, [{"duration_ns": 1e9, "cycles": 1.0}])
    with pytest.raises(NotFound, match="no roofline formulas for cpu"):
        compute_roofline(store, "w")
    with pytest.raises(BadArgument, match="per_wave is not available on cpu"):
        evaluate(store, "w", ["dispatch.cycles"], normalization="per_wave")
