"""A command for every tool: its arguments come from the tool's declaration, and its answer suits its reader."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.commands.verbs import BY_NAME, BY_TOOL, VERBS
from rooflens.server.commands.verbs.command_names import command_line, name_commands
from rooflens.server.mcp.toolbox import TOOLS, answer, tool_named
from rooflens.server.terminal.outcome import REFUSED, USAGE
from rooflens.tests.support.waiting import END_S
from rooflens.tools.base.results import NextCall, Result
from rooflens.tools.rendering import render


def run(capsys: pytest.CaptureFixture[str], store: Store, *words: str) -> tuple[int, str, str]:
    status = main(["--store", str(store.root), *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def asked(capsys: pytest.CaptureFixture[str], store: Store, *words: str) -> dict[str, object]:
    """The answer as data."""
    status, out, err = run(capsys, store, *words, "--json")
    assert status == 0, err
    answered: dict[str, object] = json.loads(out)
    return answered


def test_every_tool_has_a_command_and_every_place_is_one_of_its_arguments() -> None:
    assert {tool.name for tool in TOOLS} == set(BY_TOOL)
    for verb in VERBS:
        model = tool_named(verb.tool)
        fields = model.arguments.model_fields
        assert {one.name for one in verb.positionals} <= set(fields), verb.name
        assert not verb.table or verb.table in model.result.model_fields, verb.name
        assert shlex.split(verb.example)[0] == verb.name


@pytest.mark.parametrize(
    "words",
    [
        ["metrics", "yax_before", "l2.hit_rate_pct", "vl1d.bw_gbs", "--kernel", "#1"],
        ["metrics", "kernel=#1", "yax_before", "metrics=l2.hit_rate_pct,vl1d.bw_gbs"],
        ["metrics", "--metrics", "l2.hit_rate_pct", "--metrics", "vl1d.bw_gbs", "--kernel", "#1", "yax_before"],
        ["compute_metrics", "yax_before", 'metrics=["l2.hit_rate_pct", "vl1d.bw_gbs"]', "kernel=#1"],
        ["call", "compute_metrics", "workload=yax_before", "metrics=l2.hit_rate_pct,vl1d.bw_gbs", "kernel=#1"],
        ["call", "compute_metrics", '{"workload": "yax_before", "metrics": ["l2.hit_rate_pct", "vl1d.bw_gbs"], '
         '"kernel": "#1"}'],
    ],
)  # fmt: skip
def test_places_pairs_options_and_json_give_the_same_arguments(
    words: list[str], samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"workload": "yax_before", "metrics": ["l2.hit_rate_pct", "vl1d.bw_gbs"], "kernel": "#1"}
    expected = answer(samples, "compute_metrics", arguments)
    assert isinstance(expected, Result)
    assert asked(capsys, samples, *words) == json.loads(json.dumps(render.structured_content(expected)))


def test_a_value_is_text_where_the_argument_is_text_and_json_where_it_is_not(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, samples, "show", "2024")
    assert status == REFUSED and "There is no workload '2024'" in err
    rows = asked(capsys, samples, "metrics", "yax_before", "l2.hit_rate_pct", "dispatches=1")["table"]
    assert rows["rows"]  # type: ignore[index]
    assert asked(capsys, samples, "occupancy", "gpu=MI300X", "vgprs=64", "workgroup_size=256")["waves_per_cu"] == 32


def test_one_word_of_sql_is_the_query_and_two_are_workload_and_query(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT count(*) FROM dispatches WHERE kernel = kernel"
    every, one = (asked(capsys, samples, "sql", *words, query)["table"] for words in ((), ("yax_after",)))
    assert (every["rows"], one["rows"]) == ([[2]], [[1]])  # type: ignore[index]


def test_words_are_those_of_clients_with_aligned_tables_and_commands_to_go_on(
    samples: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    status, out, _ = run(capsys, samples, "show", "yax_before")
    reply = answer(samples, "list_workloads", {"workload": "yax_before"})
    assert status == 0 and isinstance(reply, Result)
    of_clients = render.text(reply.model_copy(update={"next": []}))
    plain = str.maketrans("", "", " -|\n")
    assert out.partition("\nnext\n")[0].translate(plain) == of_clients.translate(plain)
    step = out.partition("\nnext\n")[2].splitlines()[0]
    assert run(capsys, samples, *shlex.split(step)[1:])[0] == 0, "what is suggested works as it is"


def test_commands_print_words_also_in_a_pipe_and_call_prints_json(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for_people, for_scripts = (run(capsys, samples, *words)[1] for words in (["ls"], ["ls", "--json"]))
    assert for_people.startswith("The store has 2 workloads") and "\ntable\n" in for_people
    assert run(capsys, samples, "call", "list_workloads")[1] == for_scripts
    assert run(capsys, samples, "call", "list_workloads", "--text")[1] == for_people


def test_words_name_commands_and_json_names_tools(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, samples, "show", "nothing")
    assert status == REFUSED and "`rooflens ls` shows all" in err
    assert "list_workloads shows all" in run(capsys, samples, "show", "nothing", "--json")[1]
    assert "list_workloads shows all" in run(capsys, samples, "call", "list_workloads", "workload=nothing")[2]
    (note,) = asked(capsys, samples, "ls")["notes"]  # type: ignore[misc]
    assert "query_counters with SELECT" in note
    assert "`rooflens sql` with SELECT" in run(capsys, samples, "ls")[1]


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("compute_timeline shows it", "`rooflens timeline` shows it"),
        ("Use `compute_timeline`.", "Use `rooflens timeline`."),
        ('Use profile_command with metrics=["hotspots"], or', "Use `rooflens profile metrics=hotspots -- PROGRAM`, or"),
        ("profile_command(metrics=['timeline']) or", "`rooflens profile metrics=timeline -- PROGRAM` or"),
        ('plan_profile with metrics ["a", "b"] states', "`rooflens plan metrics=a,b -- PROGRAM` states"),
        ("list_workloads with by='launch' and", "`rooflens ls by=launch` and"),
        ("profile_command(command=[a script])", "`rooflens profile` (command=[a script])"),
        ("query_counters with SELECT 1", "`rooflens sql` with SELECT 1"),
        ("`rooflens call plan_profile`", "`rooflens call plan_profile`"),
        ("a/plan_profile.py, 'plan_profile', my.plan_profile", "a/plan_profile.py, 'plan_profile', my.plan_profile"),
    ],
)
def test_a_tool_in_a_sentence_becomes_a_command(sentence: str, shown: str) -> None:
    assert name_commands(sentence) == shown
    assert name_commands(sentence, "x compute_timeline y") == (sentence if "compute_timeline" in sentence else shown)


def test_csv_has_the_rows_of_the_main_table(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    table = asked(capsys, samples, "ls")["table"]
    status, out, err = run(capsys, samples, "ls", "--csv")
    rows = list(csv.reader(io.StringIO(out)))
    assert status == 0 and err == ""
    assert rows[0] == table["columns"]  # type: ignore[index]
    assert [row[0] for row in rows[1:]] == [row[0] for row in table["rows"]]  # type: ignore[index]
    assert rows[1][rows[0].index("tags")] == "", "a missing value is an empty cell"
    status, out, err = run(capsys, samples, "ls", "--csv", "limit=1")
    assert len(out.splitlines()) == 2 and "1 of 2 rows" in err and "limit=N" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["diagnose", "yax_before", "--csv"], "the answer of diagnose has no table"),
        (["call", "list_workloads", "--csv", "--text"], "exclude each other"),
        (["metrics"], "WORKLOAD is missing"),
        (["compare", "yax_before"], "CANDIDATE is missing"),
        (["metrics", "yax_before", "metric=l2"], "Near names: metrics"),
        (["metrics", "yax_before", "by=kernl"], "by: it must be one of kernel, launch"),
        (["metrics", "yax_before", "limit=ten"], "limit: it must be a whole number, for example 10"),
        (["metrics", "yax_before", "limit=0"], "limit: it must be at least 1"),
        (["metrics", "yax_before", "--limt", "4"], "Near names: --limit"),
        (["ls", "limit=1", "limit=2"], "limit is given 2 times"),
        (["ls", "one"], "'one' is one word too many"),
        (["dignose"], "Near names: diagnose"),
        (["list_workload"], "Near names: list_workloads"),
        (["gate", "a", "b", "--inconclsive", "pass"], "Near names: --inconclusive"),
    ],
)
def test_a_wrong_command_line_is_explained_in_our_words(
    words: list[str], said: str, samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, samples, *words)
    assert (status, out) == (USAGE, "") and said in err and "Input should" not in err
    if words[0] in BY_NAME and "--csv" not in words and "--limt" not in words:
        assert f"Example: rooflens {BY_NAME[words[0]].example}" in err


def test_a_suggested_call_is_a_command_that_a_shell_takes() -> None:
    def shown(tool: str, **arguments: object) -> str:
        return command_line(NextCall(tool=tool, arguments=arguments, why=""))

    assert shown("list_workloads") == "rooflens ls"
    assert shown("list_workloads", workload="w", by="launch") == "rooflens show w by=launch"
    assert (
        shown("compute_metrics", workload="w", metrics=["a", "b"], kernel="#1") == "rooflens metrics w a b kernel='#1'"
    )
    assert shown("diagnose_bottleneck", kernel="k") == "rooflens diagnose kernel=k"
    assert shown("plan_profile", gpu="MI300X", command=["./app", "in put"]) == (
        "rooflens plan gpu=MI300X -- ./app 'in put'"
    )
    assert shown("compute_roofline", workload="w", ceilings={"hbm.bw": 1}) == (
        "rooflens roofline w ceilings='{\"hbm.bw\": 1}'"
    )


@pytest.mark.parametrize("words", [["ls"], ["call", "list_workloads"], ["report", "latest"]])
def test_a_store_that_is_none_is_named_by_what_reads(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    for address, said in (
        (tmp_path / "nowhere", f"There is no store {tmp_path / 'nowhere'}"),
        (tmp_path / "other", f"{tmp_path / 'other'} is not a store. It contains other files: file (ROOFLENS_STORE)"),
        ("ftp://host/x", "is not supported (ROOFLENS_STORE)"),
    ):
        monkeypatch.setenv("ROOFLENS_STORE", str(address))
        assert main(words) == REFUSED
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_alone_it_says_what_to_do_first(samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, Store(tmp_path / "none"))
    assert status == 0 and 3 <= len(out.splitlines()) <= 5
    assert all(f"rooflens {word}" in out for word in ("demo", "import PATH", "connect"))
    status, out, _ = run(capsys, samples)
    assert status == 0 and 3 <= len(out.splitlines()) <= 5
    assert "2 workloads" in out and "rooflens ls" in out and "rooflens diagnose yax_after" in out


def test_a_verb_imports_neither_the_protocol_nor_other_tools(samples: Store) -> None:
    names = [tool.name for tool in TOOLS]
    code = (
        "import sys\nfrom rooflens.server.cli import main\n"
        f"main(['--store', {str(samples.root)!r}, 'ls', 'limit=1'])\n"
        "tools = sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('rooflens.tools.'))\n"
        "print('mcp' in sys.modules, [tool for tool in tools if tool in sys.argv[1:]])"
    )
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, timeout=END_S)
    assert done.stdout.splitlines()[-1] == "False ['list_workloads']", done.stderr
