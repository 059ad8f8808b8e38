"""Newer records in rocprofv3's JSON: graphs, events on the GPU, libraries, the kernel driver, and sampled counters.

The layouts are those that AMD's generateJSON.cpp and tests of rocprofiler-sdk show; no file of these kinds was at hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests.made.rocprofv3 import Launch, Writer, run

KINDS = ["NONE", "HIP_GRAPH", "HIP_EVENT", "HIPFILE_API", "ROCSHMEM_API", "KFD"]
OPERATIONS = [["X"], ["HIP_GRAPH_LAUNCH"], ["HIP_EVENT_RECORD", "HIP_EVENT_WAIT"], ["hipFileRead"], ["put"], ["FAULT"]]


def record(kind: int, start: int, end: int, operation: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "operation": operation, "thread_id": 4711, "correlation_id": {"internal": 90 + kind},
        "start_timestamp": start, "end_timestamp": end, **more,
    }  # fmt: skip


def instance(xcc: int, engine: int, number: int) -> int:
    return xcc | engine << 12 | number << 36


@pytest.fixture
def recorded(writer: Writer) -> tuple[Path, dict[str, Any]]:
    """A file with two launches, and its contents to add to."""
    file = writer.json("1_results.json", run(Launch(), Launch(), Launch()))
    whole = json.loads(file.read_text())
    (made,) = whole["rocprofiler-sdk-tool"]
    made["strings"]["buffer_records"] = [
        {"kind": kind, "operations": names} for kind, names in zip(KINDS, OPERATIONS, strict=True)
    ]
    return file, whole


def written(recorded: tuple[Path, dict[str, Any]], **records: list[dict[str, Any]]) -> Path:
    file, whole = recorded
    whole["rocprofiler-sdk-tool"][0]["buffer_records"] |= records
    file.write_text(json.dumps(whole))
    return file


def test_a_replay_of_a_graph_is_a_range_and_its_nodes_are_launches(bench: Any, recorded: Any) -> None:
    launches = recorded[1]["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    for node, one in enumerate(launches[:2], 3):
        one |= {"graph_exec_id": 7, "graph_node_id": node, "correlation_id": {"internal": 91}}
    launches[2] |= {"graph_exec_id": 0, "graph_node_id": 0}
    start, end = launches[0]["start_timestamp"] - 50, launches[1]["end_timestamp"] + 50
    done = bench.load(written(recorded, hip_graph=[record(1, start, end, graph_exec_id=7)]))
    assert bench.rows(done, "dispatches", "graph, graph_node") == [(7, 3), (7, 4), (None, None)]
    assert bench.rows(done, "ranges", "name") == [("graph 7",)]


def test_events_on_the_gpu_and_libraries_are_events_and_ranges(bench: Any, recorded: Any) -> None:
    start = recorded[1]["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"][0]["start_timestamp"]
    file = written(
        recorded,
        hip_event=[
            record(2, start, start + 5, 0, queue_id={"handle": 1}),
            record(2, start + 5, start + 9, 1, queue_id={"handle": 2}, source_queue_id={"handle": 1}),
        ],
        hipfile_api=[record(3, start, start + 40)],
        rocshmem_api=[record(4, start, start + 20)],
        kfd=[record(5, start, start + 10)],
    )
    done = bench.load(file)
    barriers = bench.rows(done, "events", "name, category", "kind = 'barrier' ORDER BY start_ns")
    assert barriers == [("record of an event", "record"), ("wait for an event of queue 1", "wait")]
    assert sorted(bench.rows(done, "ranges", "name")) == [("hipFileRead",), ("put",)]
    calls = bench.rows(done, "events", "name", "kind = 'api' ORDER BY name")
    assert calls == [("hipFileRead",), ("put",)]
    assert any("1 event" in text and "driver" in text for text in (*done.notes, *done.warnings))


def test_values_sampled_inside_a_launch_have_their_place_on_the_gpu(bench: Any, recorded: Any) -> None:
    made = recorded[1]["rocprofiler-sdk-tool"][0]
    made["counters"] = [{"id": {"handle": 2**63 + 5}, "name": "SQ_WAVES", "is_derived": 0}]
    (first, *_) = made["buffer_records"]["kernel_dispatch"]
    values = [
        {"counter_id": {"handle": 2**63 + 5}, "value": value, "timestamp": 1000 + 10 * n, "instance_id": at}
        for n, (value, at) in enumerate([(1.0, instance(0, 0, 0)), (4.0, instance(5, 3, 2)), (2.0, instance(7, 31, 9))])
    ]
    launch = {
        "dispatch_data": {"size": 1, **{k: first[k] for k in ("dispatch_info", "start_timestamp", "end_timestamp")}}
    }
    made["callback_records"]["spm_counter_collection"] = [{"thread_id": 1, **launch, "records": values}]
    done = bench.load(written(recorded))
    rows = bench.rows(done, "counter_samples", "counter, timestamp, position, xcd, shader_engine, instance, value")
    assert rows == [
        ("SQ_WAVES", 1000, 0.0, 0, 0, 0, 1.0), ("SQ_WAVES", 1010, 0.5, 5, 3, 2, 4.0),
        ("SQ_WAVES", 1020, 1.0, 7, 31, 9, 2.0),
    ]  # fmt: skip
    assert bench.rows(done, "dispatches", "count(*)") == [(3,)]


@pytest.mark.parametrize("at", [None, "x", -1, 2**70, 1.5, [1], True])
def test_strange_places_of_sampled_values_do_no_harm(bench: Any, recorded: Any, at: object) -> None:
    made = recorded[1]["rocprofiler-sdk-tool"][0]
    made["counters"] = [{"id": {"handle": 5}, "name": "SQ_WAVES", "is_derived": 0}]
    (first, *_) = made["buffer_records"]["kernel_dispatch"]
    launch = {"dispatch_data": {"size": 1, "dispatch_info": first["dispatch_info"]}}
    values = [
        {"counter_id": {"handle": 5}, "value": 2.0, "timestamp": 1000, "instance_id": at},
        {"counter_id": {"handle": 5}, "value": 3.0, "timestamp": at, "instance_id": 0},
    ]
    made["callback_records"]["spm_counter_collection"] = [{"thread_id": 1, **launch, "records": values}]
    done = bench.load(written(recorded))
    assert sum(bench.column(done, "counter_samples", "value")) in (2.0, 3.0, 5.0)
