"""Every rocpd schema from 3.0.0 to 3.0.4: graphs by node, HIP events, the kernel driver, network cards, libraries."""

from __future__ import annotations

from typing import Any

import pytest

from rooflens.tests.made.rocpd_schemas import VERSIONS, Recorder, database

HIP = "HIP_RUNTIME_API_EXT"


def two_launches(made: Recorder) -> None:
    """A launch of its own and one more, with a counter in each."""
    for number in (1, 2):
        made.region(HIP, "hipLaunchKernel", 1000 * number, 1000 * number + 50, number)
        event = made.launch(number, 1000 * number + 60, 1000 * number + 500, number)
        made.add("pmc_event", event_id=event, pmc_id=1, value=8.0 * number)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_schema_gives_the_same_launches_calls_and_counters(bench: Any, version: str) -> None:
    done = bench.load(database(bench.folder / "4711_results.db", version, two_launches))
    assert bench.rows(done, "dispatches", "kernel, start_ns, end_ns") == [
        ("k(float*)", 1060, 1500), ("k(float*)", 2060, 2500),
    ]  # fmt: skip
    assert bench.rows(done, "counters", "SQ_INSTS_VALU") == [(8.0,), (16.0,)]
    assert bench.rows(done, "events", "kind, count(*)", "true GROUP BY kind ORDER BY 1") == [("api", 2), ("kernel", 2)]
    assert done.warnings == [] and done.arch == "gfx942"


def replays(made: Recorder) -> None:
    """Two replays of a graph with two nodes each, and a launch beside them."""
    for n, at in enumerate((1000, 5000), 1):
        made.region(HIP, "hipGraphLaunch", at, at + 100, n)
        made.replay(3, at + 1, at + 99, n, kernels=2)
        for node in (1, 2):
            start = at + 200 * node
            made.launch(10 * n + node, start, start + 100 * node, n, graph_exec_id=3, graph_node_id=node)
    made.region(HIP, "hipLaunchKernel", 8000, 8010, 9)
    made.launch(99, 8100, 8200, 9)


@pytest.mark.parametrize("version", ["3.0.2", "3.0.4"])
def test_a_replay_of_a_graph_is_one_range_and_its_nodes_have_identity(bench: Any, version: str) -> None:
    done = bench.load(database(bench.folder / "4711_results.db", version, replays))
    assert bench.rows(done, "ranges", "name, source, start_ns") == [
        ("graph 3", "graph", 1001),
        ("graph 3", "graph", 5001),
    ]
    by_node = bench.rows(
        done, "dispatches", "graph, graph_node, count(*), sum(duration_ns)", "true GROUP BY ALL ORDER BY ALL"
    )
    assert by_node == [(3, 1, 2, 200.0), (3, 2, 2, 400.0), (None, None, 1, 100.0)]
    nodes = bench.rows(done, "events", "range_id, graph, graph_node", "kind = 'kernel' AND graph IS NOT NULL")
    assert sorted(nodes) == [(1, 3, 1), (1, 3, 2), (2, 3, 1), (2, 3, 2)]
    assert bench.rows(done, "events", "range_id", "kind = 'kernel' AND graph IS NULL") == [(None,)]
    assert done.warnings == []


def test_kernels_of_a_graph_that_the_profiler_counted_and_lost_are_told(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        replays(made)
        made.region(HIP, "hipGraphLaunch", 9000, 9100, 20)
        made.replay(3, 9001, 9099, 20, kernels=2)

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.2", fill))
    (warning,) = done.warnings
    assert "2 of 6 kernels of graphs are missing, in 1 replay" in warning


def test_copies_in_a_graph_are_nodes_too(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        replays(made)
        made.add("memory_copy", nid=77, pid=4711, tid=4711, start=1650, end=1700, size=64, stream_id=0, src_agent_id=0,
                 name_id=made.string("MEMORY_COPY_HOST_TO_DEVICE"), dst_agent_id=1, graph_exec_id=3, graph_node_id=7,
                 event_id=made.event("MEMORY_COPY", 1))  # fmt: skip

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.3", fill))
    assert bench.rows(done, "events", "direction, graph, graph_node, range_id", "kind = 'copy'") == [("h2d", 3, 7, 1)]


def test_events_on_the_gpu_are_barriers_with_the_queue_that_they_wait_for(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        made.barrier("RECORD", (2, 2), 1400, 1401)
        made.barrier("WAIT", (1, 2), 1510, 2050, 2)

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.4", fill))
    columns = "name, category, stream, device_id, start_ns, end_ns, correlation"
    assert bench.rows(done, "events", columns, "kind = 'barrier'") == [
        ("record of an event", "record", 2, 1, 1400, 1401, None),
        ("wait for an event of queue 2", "wait", 1, 1, 1510, 2050, 2),
    ]


def test_a_view_of_events_with_other_columns_is_named_and_the_rest_is_read(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        made.con.execute("DROP VIEW hip_events")
        made.con.execute("CREATE VIEW hip_events AS SELECT 'HIP_EVENT_WAIT' AS name, 1 AS queue_id")

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.4", fill))
    assert done.dispatches == 2 and any("hip_events lacks start_ns, end_ns" in text for text in done.warnings)


FAULT = {"agent_id": 1, "address": 4096}


@pytest.mark.parametrize(
    "extdata",
    [
        {"kfd": {"record": {"index": 7, "data": FAULT}}},
        {"kfd": FAULT},
        {"kfd": {"agent_id": "1", "address": "4096"}},
        {"kfd": [{"key": "address", "value": "4096"}, {"key": "agent_id", "value": "1"}]},
    ],
)
def test_page_faults_are_events_of_the_driver_on_their_gpu_in_every_form_of_their_json(
    bench: Any, extdata: Any
) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        made.region("KFD_PAGE_FAULT", "ROCPROFILER_KFD_PAGE_FAULT_READ_FAULT_MIGRATED", 1510, 1900, 0, **extdata)

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.1", fill))
    assert bench.rows(done, "events", "name, category, device_id, start_ns, end_ns, pid", "kind = 'driver'") == [
        ("KFD_PAGE_FAULT_READ_FAULT_MIGRATED", "kfd_page_fault", 1, 1510, 1900, 4711)
    ]


def test_a_migration_belongs_to_the_gpu_that_it_goes_to_and_an_eviction_without_gpu_to_none(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        moved = {"kfd": {"record": {"data": {"src_agent_id": 0, "dst_agent_id": 1, "error_code": 0}}}}
        made.region("KFD_PAGE_MIGRATE", "ROCPROFILER_KFD_PAGE_MIGRATE_PAGEFAULT_GPU", 1510, 1520, 0, **moved)
        made.region("KFD_QUEUE", "ROCPROFILER_KFD_QUEUE_EVICT_TTM", 1530, 1540, 0, kfd={"record": {"data": {}}})

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.2", fill))
    rows = bench.rows(done, "events", "category, device_id", "kind = 'driver'")
    assert rows == [("kfd_page_migrate", 1), ("kfd_queue", None)]


def test_a_network_card_is_no_gpu_and_does_not_hide_the_one_that_ran_the_kernels(bench: Any) -> None:
    file = database(bench.folder / "4711_results.db", "3.0.1", two_launches, agents=("CPU", "GPU", "NIC"))
    done = bench.load(file)
    assert done.arch == "gfx942" and set(bench.column(done, "dispatches", "device_id")) == {1}


def test_ranges_of_libraries_are_ranges_and_their_calls_stay_calls_but_openmp_has_no_calls(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        made.region("OMPT", "omp_parallel", 900, 3000, 50)
        made.region("HIPFILE_API_EXT", "hipFileRead", 910, 950, 51)
        made.region("ROCSHMEM_API_EXT", "rocshmem_putmem_on_stream", 960, 990, 52)
        two_launches(made)

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.4", fill))
    assert bench.rows(done, "ranges", "source, path") == [
        ("openmp", "omp_parallel"), ("hipfile", "omp_parallel/hipFileRead"),
        ("rocshmem", "omp_parallel/rocshmem_putmem_on_stream"),
    ]  # fmt: skip
    calls = bench.rows(done, "events", "name", "kind = 'api' AND NOT starts_with(name, 'hipLaunch')")
    assert calls == [("hipFileRead",), ("rocshmem_putmem_on_stream",)]
    assert set(bench.rows(done, "events", "range_id", "kind = 'kernel'")) == {(1,)}


def test_a_table_that_is_not_understood_is_named(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        made.con.execute("CREATE TABLE rocpd_quantum_0000091e_2236 (id INTEGER)")
        made.con.execute("INSERT INTO rocpd_quantum_0000091e_2236 VALUES (1)")

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.1", fill))
    assert done.dispatches == 2 and any("rocpd_quantum" in text for text in done.warnings)


WAVES = [(time, xcc, engine, 0, 1.0 + xcc) for time in (100, 140, 180) for xcc in (0, 1) for engine in (0, 2)]


@pytest.mark.parametrize("version", ["3.0.3", "3.0.4"])
def test_counters_sampled_inside_a_launch_are_no_counters_of_it_but_a_table_of_their_own(
    bench: Any, version: str
) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        made.spm(made.launch(3, 3000, 3500, 3), 1, WAVES)

    done = bench.load(database(bench.folder / "4711_results.db", version, fill))
    assert bench.rows(done, "counters", "SQ_INSTS_VALU") == [(8.0,), (16.0,), (None,)]
    rows = bench.rows(done, "counter_samples", "timestamp, xcd, shader_engine, instance, value", "dispatch_id = 3")
    assert sorted(rows) == sorted(WAVES)
    positions = bench.rows(
        done, "counter_samples", "position, sum(value)", "kernel = 'k(float*)' GROUP BY 1 ORDER BY 1"
    )
    assert positions == [(0.0, 6.0), (0.5, 6.0), (1.0, 6.0)]
    assert bench.rows(done, "events", "name", "kind = 'sample'") == []


def test_samples_of_a_whole_device_have_no_launch(bench: Any) -> None:
    def fill(made: Recorder) -> None:
        two_launches(made)
        made.spm(made.event("SPM"), 2, WAVES)

    done = bench.load(database(bench.folder / "4711_results.db", "3.0.3", fill))
    rows = bench.rows(done, "counter_samples", "DISTINCT dispatch_id, position, counter, device_id")
    assert rows == [(None, None, "SQ_CYCLES", 1)]
