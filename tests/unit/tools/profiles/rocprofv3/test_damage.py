"""Half-written, empty and foreign files: what can be read is read, the rest is named."""

from __future__ import annotations

import json

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.made.rocpd import write_rocpd
from rooflens.tests.made.rocprofv3 import Launch, repeated, run

RUN = run(*repeated(3, Launch("k(int, char)"), X_A=[1.0, 2.0, 3.0]))


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.6, 0.9])
def test_a_cut_json_is_refused_in_words(bench, writer, cut):
    file = writer.json("4711_results.json", RUN)
    content = file.read_bytes()
    file.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(BadInput, match=r"4711_results\.json is damaged"):
        bench.load(file)
    assert bench.is_clean()


@pytest.mark.parametrize("content", ["[]", "{}", '{"rocprofiler-sdk-tool": []}', "null", "17", '"text"', "{]", "[[[[",
                                     '{"rocprofiler-sdk-tool": [{"metadata": ' + "9" * 5000 + "}]}"])  # fmt: skip
def test_another_json_is_refused_in_words(bench, writer, content):
    file = writer.place("4711_results.json")
    file.write_text(content)
    with pytest.raises(BadInput, match="4711_results"):
        bench.load(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda tool: tool["callback_records"].update(counter_collection=[{"records": 3}]),
        lambda tool: tool["callback_records"].update(counter_collection=[{"records": ["x"], "dispatch_data": []}]),
        lambda tool: tool.update(agents=[3, {"id": []}, {"id": {"handle": {}}}]),
        lambda tool: tool.update(metadata={"pid": "x", "node": 3, "command": {"a": 1}}),
        lambda tool: tool["buffer_records"].update(kernel_dispatch=[{"dispatch_info": {"grid_size": {"x": 1}}}]),
    ],
)
def test_json_of_another_shape_is_no_crash(bench, writer, change):
    file = writer.json("4711_results.json", RUN)
    whole = json.loads(file.read_text())
    change(whole["rocprofiler-sdk-tool"][0])
    file.write_text(json.dumps(whole))
    try:
        bench.load(file)
    except BadInput as problem:
        assert "4711_results" in problem.text


def test_json_without_a_value_keeps_the_others(bench, writer):
    file = writer.json("4711_results.json", RUN)
    whole = json.loads(file.read_text())
    records = whole["rocprofiler-sdk-tool"][0]["callback_records"]["counter_collection"]
    records[0]["records"][0]["value"] = None
    file.write_text(json.dumps(whole))
    assert bench.column(bench.load(file), "counters", "X_A") == [None, 2.0, 3.0]


def test_json_larger_than_its_window_is_read(bench, writer, monkeypatch):
    from rooflens.tools.profiles.parsing import json_stream

    monkeypatch.setattr(json_stream, "_BLOCK", 7)
    done = bench.load(writer.json("4711_results.json", RUN))
    assert bench.column(done, "counters", "X_A") == [1.0, 2.0, 3.0]


def test_a_cut_csv_is_named_and_the_other_passes_are_read(bench, writer):
    writer.trace("out/timing/1", RUN)
    file = writer.counters("out/pass_1/2", RUN)
    file.write_text(file.read_text()[:-60])
    writer.counters("out/pass_2/3", run(*repeated(3, Launch("k(int, char)"), X_B=[4.0, 5.0, 6.0]), pid=3))
    done = bench.load(bench.folder / "out")
    assert bench.manifest(done).counters == ["X_B"]
    assert bench.column(done, "counters", "X_B") == [4.0, 5.0, 6.0]
    assert any("2_counter_collection.csv" in w and "skipped" in w for w in done.warnings)


def test_a_cut_in_the_last_number_is_told(bench, writer):
    file = writer.counters("4711", RUN)
    file.write_text(file.read_text()[:-3])
    assert any("does not end with a line break" in w for w in bench.load(file).warnings)


def test_a_damaged_database_gives_way_to_the_csv_beside_it(bench, writer):
    file = write_rocpd(writer.place("out/4711_results.db"), RUN)
    file.write_bytes(file.read_bytes()[:9000])
    writer.counters("out/4711", RUN)
    done = bench.load(bench.folder / "out")
    assert bench.column(done, "counters", "X_A") == [1.0, 2.0, 3.0]
    assert any("4711_results.db is damaged" in w for w in done.warnings)


def test_an_empty_database_is_named_and_the_other_process_is_read(bench, writer):
    writer.place("out/4712_results.db").write_bytes(b"")
    write_rocpd(writer.place("out/4711_results.db"), RUN)
    done = bench.load(bench.folder / "out")
    assert done.dispatches == 3
    assert any("4712_results.db is empty" in w for w in done.warnings)


def test_nothing_but_damage_is_refused(bench, writer):
    writer.place("out/4711_results.db").write_bytes(b"")
    writer.place("out/4712_results.json").write_text('{"rocprofiler-sdk-tool": [{')
    writer.place("out/4713_kernel_trace.csv").write_text("")
    with pytest.raises(BadInput, match=r"could be read.*4711_results\.db is empty"):
        bench.load(bench.folder / "out")
    assert bench.is_clean()


def test_a_header_alone_is_a_run_without_launches(bench, writer):
    file = writer.trace("out/4711", RUN)
    file.write_text(file.read_text().splitlines(keepends=True)[0])
    with pytest.raises(BadInput, match="contains no rows"):
        bench.load(file)


def test_traces_of_api_calls_alone_are_named(bench, writer):
    writer.agents("out/4711")
    bench.csv("out/4711_hip_api_trace.csv", ["Domain", "Function"], [("HIP_RUNTIME_API", "hipMalloc")])
    with pytest.raises(BadInput, match=r"no kernel launches.*4711_hip_api_trace\.csv.*--kernel-trace"):
        bench.load(bench.folder / "out")


@pytest.mark.parametrize("kind", ["csv", "json", "db"])
def test_a_recorded_api_trace_without_launches_is_a_timeline_of_the_host(bench, shared, kind):
    for file in (shared / "rocprofv3" / "hip_trace").glob(f"*.{kind}"):
        (bench.folder / "out").mkdir(exist_ok=True)
        (bench.folder / "out" / file.name).write_bytes(file.read_bytes())
    done = bench.load(bench.folder / "out")
    assert (done.dispatches, done.kernels, done.passes, bench.manifest(done).events) == (0, 0, 1, 49)
    assert not bench.rows(done, "dispatches") and set(bench.column(done, "events", "pid")) == {10552}


def test_links_out_of_the_folder_are_left_out(bench, writer):
    secret = writer.counters("secret/4711", RUN)
    writer.trace("out/1", RUN)
    (bench.folder / "out" / "4711_counter_collection.csv").symlink_to(secret)
    done = bench.load(bench.folder / "out")
    assert done.counters == 0 and any("is a symbolic link that points outside" in w for w in done.warnings)


def test_a_counter_stated_twice_for_a_launch_is_added_up_and_told(bench, writer):
    file = writer.counters("4711", RUN)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, lines[1]]))
    done = bench.load(file)
    assert bench.column(done, "counters", "X_A") == [2.0, 2.0, 3.0]
    assert any("stated several times for one launch" in w for w in done.warnings)


def test_no_value_is_null_and_told(bench, writer):
    file = writer.counters("4711", RUN)
    file.write_text(file.read_text().replace(",2.000000,", ",oops,"))
    done = bench.load(file)
    assert bench.column(done, "counters", "X_A") == [1.0, None, 3.0]
    assert any("Counter_Value contains text in 1 of 3 rows" in w for w in done.warnings)


def test_other_gpus_of_the_machine_do_not_matter(bench, writer):
    """Two kinds of GPUs, of which the launches name one."""
    from rooflens.tests.made.rocprofv3 import GPU

    file = writer.counters("4711", RUN)
    agents = file.with_name("4711_agent_info.csv")
    other = writer.agents("other", GPU | {"name": "gfx90a", "gfx_target_version": 90010, "simd_count": 416})
    agents.write_text(agents.read_text() + other.read_text().splitlines()[-1].replace('1,1,"GPU"', '2,2,"GPU"') + "\n")
    done = bench.load(file)
    assert (done.arch, bench.manifest(done).facts["cu_per_gpu"]) == ("gfx942", 304)


def test_profiles_of_different_gpus_are_refused(bench, writer):
    from rooflens.tests.made.rocprofv3 import GPU

    writer.counters("out/pass_1/1", RUN)
    writer.counters("out/pass_2/2", run(*repeated(3, Launch("k(int, char)"), X_B=[1.0, 2.0, 3.0]), pid=2))
    writer.agents("out/pass_2/2", GPU | {"name": "gfx90a"})
    with pytest.raises(BadInput, match="different GPUs"):
        bench.load(bench.folder / "out")
