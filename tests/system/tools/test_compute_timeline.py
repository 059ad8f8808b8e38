"""compute_timeline, its picture and its export: what is answered, on made timelines and on recorded ones."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.comparison.timeline_changes import SPAN, change, notes
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.timeline import application
from rooflens.analysis.workload import Workload
from rooflens.server import cli
from rooflens.server.mcp import toolbox
from rooflens.tests import ROOT
from rooflens.tests.support import recordings
from rooflens.tests.support.pictures import collisions, outside, texts
from rooflens.tests.support.timelines import Made, publish
from rooflens.tests.system.server.test_hostile_text import PAYLOADS, active, strings
from rooflens.tools.base.results import Table
from rooflens.tools.compute_timeline import TimelineResult, compute_timeline
from rooflens.tools.diagnose_bottleneck import DiagnosisResult
from rooflens.tools.plot import DRAWINGS
from rooflens.tools.rendering import render

US, MS = 1_000, 1_000_000


def rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def small(names: tuple[str, ...] = ("gemm",)) -> Made:
    """Steps of 5 ms: the host reads for 3, a copy of 1 MB takes 1, a kernel 0.5."""
    made, t = Made(), 0
    for i in range(10):
        made.range("step", t, t + 5 * MS)
        made.range(names[0], t, t + 3 * MS, depth=1, path=f"step/{names[0]}")
        made.copy("h2d", (t + 3 * MS, t + 3 * MS + 20 * US), (t + 3 * MS + 30 * US, t + 4 * MS + 30 * US), pinned=False)
        made.launch(names[i % len(names)], (t + 3 * MS + 25 * US, t + 3 * MS + 30 * US),
                    (t + 4 * MS + 31 * US, t + 4 * MS + 531 * US))  # fmt: skip
        t += 5 * MS
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path)
    publish(made, small(), "small")
    return made


def test_the_split_idle_causes_and_copies_add_up(store: Store) -> None:
    found = compute_timeline(store, "small")
    split = {row["part"]: row for row in rows(found.split)}
    assert found.wall_ms == 9 * 5 and found.window == "9 steps in the steady state"
    assert split["gpu_busy"]["ms"] == pytest.approx(9 * 1.5)
    assert split["kernels"]["pct"] == 10 and split["copies"]["pct"] == split["exposed_copies"]["pct"] == 20
    assert split["idle"]["pct"] == pytest.approx(sum(row["pct"] for row in rows(found.idle)), abs=0.02)
    [copies] = rows(found.copies)
    assert (copies["direction"], copies["host_memory"], copies["gbs"]) == ("h2d", "pageable", pytest.approx(1.049))
    assert found.verdict.height == "host" and found.steps.startswith("9 whole steps, 0 of them warm-up")
    assert rows(found.idle)[0]["cause"] == "host" and rows(found.idle)[0]["range"] == "step/gemm"
    assert "The GPU is idle 70 % of the time: its kernels are secondary." in found.notes
    assert all(c.arguments["workload"] == found.workload for c in found.next)
    figures = {row["figure"]: row["value"] for row in rows(found.figures)}
    assert figures["launch_call_us"] == 5, "calls of kernels, not those of copies, which take 20"
    assert not any("Recording slows down" in note for note in found.notes)


def test_a_call_that_stands_among_the_ranges_too_counts_once(tmp_path: Path) -> None:
    """As rocprof-sys writes them: the first call, of 200 ms, is no 400 ms of a start of 250."""
    made = Made()
    made.range("main", 0, 300 * MS)
    for name, start, end in (("hipGetDevice", 10 * MS, 210 * MS), ("hipMalloc", 220 * MS, 225 * MS)):
        made.host(name, start, end)
        made.range(name, start, end, depth=1, path=f"main/{name}", source="rocprof-sys")
    made.launch("k", (250 * MS, 250 * MS + 10 * US), (250 * MS + 20 * US, 300 * MS))
    publish(Store(tmp_path), made, "twice")
    [start] = rows(compute_timeline(Store(tmp_path), "twice").edges)
    assert (start["part"], start["ms"]) == ("start_up", 250.02)
    assert (start["range"], start["operations"]) == ("main", "hipGetDevice 200 ms, hipMalloc 5 ms")


def test_hostile_names_neither_hide_nor_act(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = small(PAYLOADS)
    for name in PAYLOADS:
        made.host(name, 0, 2 * MS)
    publish(store, made, PAYLOADS[0])
    found = toolbox.answer(store, "compute_timeline", {"top_n": 50})
    assert isinstance(found, TimelineResult)
    words, data = render.text(found), render.structured_content(found)
    assert {s: what for s in {words, *strings(data)} if (what := active(s))} == {}
    assert not any("evil" in word for call in found.next for word in strings(call.model_dump()))
    drawn = toolbox.answer(store, "plot", {"kind": "timeline", "workload": "latest"})
    assert {s: what for s in strings(render.structured_content(drawn)) if (what := active(s))} == {}  # type: ignore[arg-type]


def test_the_picture_is_legible_at_800_pixels(shared: Path, tmp_path: Path) -> None:
    store, name = Store(tmp_path), "dataloader"
    recordings.stored(store, shared / "traces" / f"{name}.json.gz", name)
    with Workload.open(store, name) as workload:
        picture = DRAWINGS["timeline"](workload).picture(800)
    assert outside(picture) == [] and collisions(picture) == []
    told = " ".join(words for words, _ in texts(picture))
    assert all(words in told for words in (f"Timeline: {name}", "Verdict: ", "kernels: ", "GPU 0 idle", " ms"))


def test_many_devices_without_a_host_are_drawn(tmp_path: Path) -> None:
    made = Made()
    for rank in range(6):
        for i in range(5):
            made.add("kernel", "ncclAllReduce" if i % 2 else "gemm", i * MS, i * MS + 500 * US, rank=rank, pid=rank,
                     device_id=0, stream=0)  # fmt: skip
    publish(Store(tmp_path), made, "many")
    with Workload.open(Store(tmp_path), "many") as workload:
        assert "2 more devices are not drawn." in " ".join(DRAWINGS["timeline"](workload).facts)


def test_launches_with_times_are_a_timeline_that_never_blames_the_host(tmp_path: Path) -> None:
    made = Store(tmp_path)
    recordings.stored(made, ROOT / "server" / "samples" / "matmul_fp64", "matmul_fp64")
    found = compute_timeline(made, "matmul_fp64")
    sql = "SELECT min(start_ns), max(end_ns), sum(end_ns - start_ns) FROM dispatches"
    with Workload.open(made, "matmul_fp64") as opened:
        start, end, ns = opened.rows(sql.replace("dispatches", opened.relation("dispatches")))[0]
    split = {row["part"]: row["ms"] for row in rows(found.split)}
    assert split["gpu_busy"] == pytest.approx(float(ns) / 1e6)
    assert split["gpu_busy"] + split["idle"] == pytest.approx((end - start) / 1e6)
    assert {row[0] for row in found.idle.rows} <= {"unknown"}
    assert found.verdict.height in ("gpu", "unknown") and found.verdict.confidence <= 0.5
    assert {f.height for f in found.findings} == {"gpu"}
    assert any("launches only" in note and "Counters were collected" in note for note in found.notes)


def test_an_exported_trace_holds_the_events_and_what_was_found(store: Store, tmp_path: Path) -> None:
    assert cli.main(["--store", str(store.root), "export-trace", "small", str(tmp_path / "out.json.gz")]) == 0
    with gzip.open(tmp_path / "out.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    of = {cat: [e for e in events if e.get("cat") == cat] for cat in ("kernel", "copy", "api", "user", "idle", "step")}
    assert {cat: len(found) for cat, found in of.items()} == {
        "kernel": 10, "copy": 10, "api": 20, "user": 20, "idle": 18, "step": 9
    }  # fmt: skip
    assert of["kernel"][0]["ts"] == 4031 and of["kernel"][0]["dur"] == 500, "us from the first event"
    assert sum(e["dur"] for e in of["idle"]) == pytest.approx(0.7 * 45_000, rel=0.001)
    [verdict] = [e for e in events if e.get("cat") == "verdict"]
    assert verdict["name"] == "verdict: host" and verdict["args"]["share_pct"] > 60
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in events if e["ph"] == "X")


def test_an_export_replaces_nothing_and_leaves_nothing_behind(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "there.json"
    target.write_text("mine")
    assert cli.main(["--store", str(store.root), "export-trace", "small", str(target)]) == 1
    assert "exists already" in capsys.readouterr().err and target.read_text() == "mine"
    publish(store, Made(), "empty")
    assert cli.main(["--store", str(store.root), "export-trace", "empty", str(tmp_path / "a.json")]) == 1
    assert "has no timeline" in capsys.readouterr().err
    assert not list(tmp_path.glob("*a.json*"))


def test_a_change_of_wall_time_is_told_by_its_parts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    publish(store, small(), "before")
    faster = small()
    faster.events = [e for e in faster.events if e["kind"] != "copy" and e["name"] != "hipMemcpyAsync"]
    publish(store, faster, "after")
    with Workload.open(store, "before") as before, Workload.open(store, "after") as after:
        found = change(before, after)
        assert found is not None and found.ceilings == []
        assert found is not None and found.steps.name != SPAN
        assert sum(part.delta for part in found.parts) == pytest.approx(found.after - found.before)
        by_name = {part.name: part for part in found.parts}
        assert (by_name["copies alone"].before, by_name["copies alone"].after) == (MS, 0)
        assert "copies alone 1 -> 0 ms (-1)" in notes(found)[0].text
    with Workload.open(store, "before") as before:
        assert application(before) is not None


def test_the_diagnosis_of_kernels_begins_with_the_application(samples: Store, tmp_path: Path) -> None:
    """A profile with counters and a timeline in which the device is idle most of the time."""
    publish(Store(tmp_path / "t"), small(), "timeline")
    counted, timed = samples.resolve("yax_before"), Store(tmp_path / "t").resolve("timeline")
    both = Store(tmp_path / "both")
    with both.draft() as folder:
        for store, manifest in ((samples, counted), (Store(tmp_path / "t"), timed)):
            for name in manifest.files:
                shutil.copy(store.root / f"workload={manifest.id}" / name, folder / name)
        both.publish(folder, counted)
    found = toolbox.answer(both, "diagnose_bottleneck", {"workload": "latest"})
    assert isinstance(found, DiagnosisResult) and found.application is not None
    assert (found.application.height, found.application.gpu_idle_pct) == ("host", 70.0)
    assert found.answer and "the device is idle for 70 % of the time" in found.answer
    assert found.next[0].tool == "compute_timeline" and found.kernels
    alone = toolbox.answer(samples, "diagnose_bottleneck", {"workload": "yax_before"})
    assert isinstance(alone, DiagnosisResult) and alone.application is None


def test_a_single_step_of_a_profile_is_named_and_its_parts_are_no_steps(tmp_path: Path) -> None:
    made = Made()
    made.range("ProfilerStep#1", 0, 31 * MS)
    for i in range(3):
        made.launch("gemm", (i * 10 * MS, i * 10 * MS + 5 * US), (i * 10 * MS + 10 * US, i * 10 * MS + 9 * MS))
    publish(Store(tmp_path), made, "one")
    found = compute_timeline(Store(tmp_path), "one")
    assert found.steps == "none found: a single range is called a step ('ProfilerStep#1', 31 ms on the host)"
    assert found.step_ms is None and "between its first and last work" in found.answer


def test_a_second_answer_is_read_and_equals_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    for start in range(0, 50 * MS, 10 * MS):
        made.launch("gemm", (start, start + 5 * US), (start + 10 * US, start + 6 * MS))
    store = Store(tmp_path)
    workload = publish(store, made).id
    first = render.structured_content(compute_timeline(store, workload))
    monkeypatch.setattr("rooflens.tools.compute_timeline.timeline", None)  # the trace is not read again
    assert render.structured_content(compute_timeline(store, workload)) == first
    (stored,) = store.root.glob(f"derived/*/{workload}/TimelineResult-*.json")
    stored.write_text("{")
    monkeypatch.undo()
    assert render.structured_content(compute_timeline(store, workload)) == first, "a damaged file is computed anew"
    read_only = Store.locate(tmp_path, read_only=True)
    assert render.structured_content(compute_timeline(read_only, workload)) == first
