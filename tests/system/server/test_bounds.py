"""Every argument has a bound; whatever a client sends is answered soon, by a result or by advice, in few words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.notes import Note
from rooflens.analysis.base.problems import BadArgument, LimitExceeded, NotFound, Problem
from rooflens.analysis.store.store import Store
from rooflens.server.mcp import toolbox
from rooflens.tests.support.given_tool import tool_of
from rooflens.tests.support.waiting import at_most
from rooflens.tools.base.results import NextCall, Result, Table, table
from rooflens.tools.rendering import render

TOOLS = {tool.name: tool for tool in toolbox.TOOLS}
SECONDS = 2.0
CALLS: dict[str, dict[str, Any]] = {
    "list_devices": {},
    "run_peak_benchmarks": {"device": "no such device"},
    "check_counters": {"device": "no such device"},
    "plan_profile": {"gpu": "gfx942"},
    "profile_command": {"command": ["/no/such/program"]},
    "get_run": {},
    "cancel_run": {"run_id": "none"},
    "import_profile": {"path": "/no/such/profile"},
    "list_workloads": {},
    "search_metrics": {},
    "compute_metrics": {"workload": "yax_before"},
    "query_counters": {"sql": "SELECT 1"},
    "compute_roofline": {"workload": "yax_before"},
    "compute_occupancy": {"workload": "yax_before"},
    "compute_timeline": {"workload": "yax_before"},
    "diagnose_bottleneck": {"workload": "yax_before"},
    "find_hotspots": {"workload": "yax_before"},
    "compare_workloads": {"baseline": "yax_before", "candidate": "yax_after"},
    "plot": {"kind": "occupancy", "workload": "yax_before"},
}
"""A call of each tool that starts no program."""
MEASURED = (("run_peak_benchmarks", "device"), ("check_counters", "device"))
ODD: list[Any] = [
    None, True, 0, -1, -0.0, 1.5, 1e400, float("nan"), 10**400, -(10**400), 2**63,
    "", " ", "\0", "\ud800", "x" * 3_000, "x" * 70_000, "(" * 2000 + ")" * 2000, "(?P<a>" * 50, "1." + "9" * 5000,
    "#0", "#99999999999999999999", "1-", "٣", "0-99999999999999999999999", "9" * 5000, "../../../etc/passwd", "*",
    [], [[]], [None], [True], ["x" * 70_000], [0] * 20_000, ["x"] * 20_000, [10**30], ["\ud800"],
    {}, {"a": 1}, {"x" * 70_000: 1}, {"hbm.bw": float("inf")}, {"a": ["(" * 3000]}, {"\0": ["a"]},
]  # fmt: skip


def unbounded(schema: dict[str, Any], place: str = "") -> Iterator[str]:
    """Where a schema takes text, lists, objects or numbers of any size."""
    for kind in ("anyOf", "allOf"):
        for number, part in enumerate(schema.get(kind, [])):
            yield from unbounded(part, f"{place}.{number}")
    if "enum" in schema or "const" in schema:
        return
    type_ = schema.get("type")
    if type_ == "string" and "maxLength" not in schema:
        yield f"{place}: text without an end"
    bounds = {name[-7:].lower() for name in schema}
    if type_ in ("integer", "number") and not {"minimum", "maximum"} <= bounds:
        yield f"{place}: a number without bounds"
    if type_ == "array":
        if "maxItems" not in schema:
            yield f"{place}: a list without an end"
        yield from unbounded(schema["items"], f"{place}[]")
    if type_ == "object":
        if "maxProperties" not in schema or "maxLength" not in schema.get("propertyNames", {}):
            yield f"{place}: an object without an end"
        yield from unbounded(schema["additionalProperties"], f"{place}{{}}")


def test_every_text_list_object_and_number_of_a_schema_has_bounds() -> None:
    for tool in TOOLS.values():
        schema = tool.arguments.model_json_schema()
        assert "$defs" not in schema, "a definition would have to be walked too"
        assert [fault for name, part in schema["properties"].items() for fault in unbounded(part, name)] == [], tool


def test_the_list_of_tools_says_nothing_of_bounds_which_every_client_would_pay_for() -> None:
    shown = json.dumps([toolbox.parameters(tool.arguments) for tool in TOOLS.values()])
    assert not [word for word in ("maxLength", "maxItems", "maximum", "minimum", "propertyNames") if word in shown]


@pytest.fixture(scope="module")
def own(samples: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The samples in a store that may be written to, as odd calls of plot do."""
    return Store(shutil.copytree(samples.root, tmp_path_factory.mktemp("odd") / "store"))


@pytest.mark.parametrize("tool", [name for name in TOOLS if TOOLS[name].arguments.model_fields])
def test_odd_values_are_answered_by_a_result_or_advice_for_two_seconds_of_work(
    tool: str, own: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # patterns of files and relative paths find nothing there
    faults = []
    fields = TOOLS[tool].arguments.model_fields
    turns = min(4, len(fields))
    for number, (parameter, field) in enumerate(fields.items()):
        for odd in ODD[number % turns :: turns]:  # every tool gets every value, every parameter some of each kind
            if (odd is None and field.default is None) or ((tool, parameter) in MEASURED and odd in (None, 0)):
                continue  # nothing is given; or it is a device, and would be measured
            with at_most(SECONDS):
                found = toolbox.answer(own, tool, {**CALLS[tool], parameter: odd})
            said = render.refusal(found) if isinstance(found, Problem) else render.text(found)
            if "failed inside" in said or len(said) > (2_300 if isinstance(found, Problem) else 32_000):
                faults.append((parameter, repr(odd)[:40], len(said), said[:80]))
    assert faults == []


@pytest.mark.parametrize("argument", [{"sql": "x" * 60_000_000}, {"x" * 60_000_000: 1}, {"sql": ["y" * 60_000_000]}])
def test_an_argument_of_60_megabytes_is_refused_at_once_and_not_repeated(
    argument: dict[str, Any], samples: Store
) -> None:
    with at_most(1):
        found = toolbox.answer(samples, "query_counters", argument)
        assert isinstance(found, Problem) and len(render.refusal(found)) < 2_000
    assert "failed inside" not in found.text and "x" * 100 not in found.text and "y" * 100 not in found.text


def refused(store: Store, tool: str, **arguments: Any) -> Problem:
    """The refusal of a call."""
    found = toolbox.answer(store, tool, {**CALLS[tool], **arguments})
    assert isinstance(found, Problem), found
    return found


def test_a_refusal_names_the_bound_and_what_was_sent(samples: Store) -> None:
    assert "sql: at most 65536 characters; it has 70000" in refused(samples, "query_counters", sql="x" * 70_000).text
    assert "dispatches: at most 10000 entries; it has 20000" in (
        refused(samples, "compute_metrics", dispatches=[0] * 20_000).text
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("list_workloads", {"workload": "a\ud800"}, "workload: it contains half of a surrogate pair"),
        ("compare_workloads", {"group": {"\udfff": ["a", "b"]}}, "group: it contains half of a surrogate pair"),
        ("list_workloads", {"limit": True}, "limit: true and false are not valid values for it"),
        ("compute_roofline", {"ceilings": {"hbm.bw": float("nan")}}, "ceilings: NaN and Infinity"),
        ("get_run", {"wait_s": float("inf")}, "wait_s: NaN and Infinity"),
        ("search_metrics", {"limit": 10**400}, "limit: it must be at most 100000"),
        ("import_profile", {"path": ""}, "path: it is empty"),
        ("import_profile", {"path": "a\0b"}, "path: it contains a NUL character"),
        ("import_profile", {"path": "a/" * 3000}, "path: at most 4096 characters"),
        ("import_profile", {"path": "a" * 300}, "path: one of its names is longer"),
        ("compute_metrics", {"metrics": []}, "omit it for the preset overview"),
    ],
)
def test_what_no_argument_may_hold_is_refused_by_its_name(
    tool: str, arguments: dict[str, Any], named: str, samples: Store
) -> None:
    problem = refused(samples, tool, **arguments)
    assert isinstance(problem, BadArgument) and named in problem.text


def test_an_odd_version_of_a_profiler_is_advice_and_no_bug(samples: Store) -> None:
    amd = (("rocprofv3", "gfx90a"), ("rocprof", "gfx90a"), ("rocprofv2", "gfx90a"))
    profilers = (*amd, ("ncu", "sm_90"), ("perf", "cpu"))
    for version in ("", " ", "abc", "1", "1.-1", "1.٣", "١.٢", "1.0\n", "0x1.2", "1.0.0.0.0.0", "." * 300):
        for profiler, gpu in profilers:
            asked = {"gpu": gpu, "profiler": profiler, "profiler_version": version}
            assert "failed inside" not in getattr(toolbox.answer(samples, "plan_profile", asked), "text", ""), asked


def test_what_is_nested_too_deeply_or_needs_too_much_memory_is_no_bug(
    samples: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deep(store: Store) -> Result:
        return deep(store)

    def vast(store: Store) -> Result:
        raise MemoryError

    nested: Any = "a"
    for _ in range(500):
        nested = [nested]
    assert "nested too deeply" in refused(samples, "compute_metrics", metrics=nested).text
    monkeypatch.setattr(toolbox, "TOOLS", (tool_of(deep), tool_of(vast)))
    assert isinstance(toolbox.answer(samples, "deep", {}), BadArgument)
    assert isinstance(toolbox.answer(samples, "vast", {}), LimitExceeded)


def test_a_problem_is_told_in_two_thousand_characters_and_keeps_its_advice() -> None:
    problem = NotFound(f"No kernel matches {'x' * 100_000}", "y" * 100_000, "Give a rank")
    assert len(problem.text) < 2_000 and problem.text.endswith("Give a rank.")
    assert "more characters]" in problem.text


class Wide(Result):
    """A result whose bulk lies beside its tables."""

    words: list[str] = []
    nested: dict[str, list[str]] = {}
    note: Note = Note("a", "")
    table: Table = table({"a": None}, [])


def test_no_part_of_an_answer_can_break_the_cap() -> None:
    for result in (
        Wide(notes=["n" * 100_000]),
        Wide(notes=["n"] * 50_000),
        Wide(next=[NextCall(tool="t", arguments={"a": "x" * 100_000}, why="because")]),
        Wide(words=["w" * 50] * 2_000),
        Wide(words=["\x01<img \U0010ffff" * 10_000]),
        Wide(nested={f"k{i}": ["v" * 100] * 20 for i in range(200)}),
        Wide(note=Note("a", "x" * 100_000)),
        Wide(table=table({"a": None}, [["c" * 100_000]])),
        Wide(table=table({f"column {i}" * 10: None for i in range(1000)}, [[1.0] * 1000])),
        Wide(words=["w" * 50] * 2_000, table=table({"a": None}, [["c" * 30]] * 4_000), notes=["n" * 5_000] * 30),
    ):
        answer = render.fit_answer(result, "list_workloads", {})
        assert len(json.dumps(answer.content)) <= render.CHARACTERS
        assert len(render.text(answer)) <= render.CHARACTERS and len(render.text(result)) <= render.CHARACTERS
        assert all(len(note) < 1_100 for note in answer.content["notes"])
        assert any("truncated" in note.lower() or "more characters" in note for note in answer.content["notes"])
