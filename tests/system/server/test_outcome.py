"""The same facts in words and as JSON, errors as JSON, and exit statuses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server import cli
from rooflens.server.cli import main
from rooflens.server.commands import NAMES
from rooflens.server.mcp.toolbox import TOOLS
from rooflens.server.terminal import outcome
from rooflens.server.terminal.outcome import Outcome, tell


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object], str]:
    """Status, the one JSON object on the output, and stderr."""
    status = main(argv)
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


def test_tools_doctor_and_exports_tell_programs_what_they_tell_people(
    samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ("--store", str(samples.root))
    status, found, _ = told(capsys, "tools", "--json")
    assert status == 0 and [tool["name"] for tool in found["tools"]] == [tool.name for tool in TOOLS]  # type: ignore
    status, found, _ = told(capsys, "doctor", "--json", *store)
    main(["doctor", *store])
    words = capsys.readouterr().out
    assert status == 0 and all(check["name"] in words for check in found["checks"])  # type: ignore
    target = str(tmp_path / "all.duckdb")
    status, found, _ = told(capsys, "export-db", target, "--json", *store)
    assert status == 0 and found["file"] == target and found["rows"]["dispatches"] == 2  # type: ignore
    status, found, _ = told(capsys, "report", "yax_before", "-o", str(tmp_path / "r.html"), "--json", *store)
    assert (status, found) == (0, {"file": str(tmp_path / "r.html")})


def test_a_refusal_with_json_is_one_object_on_the_output_and_nothing_on_stderr(
    samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (
        ["export-trace", "nothing", str(tmp_path / "t.json"), "--json"],
        ["--json", "report", "nothing"],
        ["call", "--json", "compute_metrics", '{"workload": "nothing"}'],
    ):
        status, found, err = told(capsys, *argv, "--store", str(samples.root))
        assert (status, err) == (1, "")
        assert found["error"]["code"] == "not_found"  # type: ignore
        assert set(found["error"]) == {"code", "what", "why", "fix"}  # type: ignore


def test_a_command_line_that_is_not_understood_is_an_object_too(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv, said in (
        (["--nonsense", "--json"], "nonsense"),
        (["tools", "--json", "--nonsense"], "nonsense"),
        (["nonsense", "--json"], "nonsense"),
        (["call", "--json", "plot", "{"], ""),
        (["call", "--json", "plot", "[1]"], ""),
        (["call", "--json", "plot", "3"], ""),
        (["report", "yax_before", "-o", "-", "--json", "--store", str(samples.root)], "Omit one of them"),
    ):
        status, found, err = told(capsys, *argv)
        assert (status, err) == (outcome.USAGE, "") and said in str(found), argv
        assert found["error"]["code"] == "usage"  # type: ignore


def test_without_json_usage_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "--nonsense"]) == outcome.USAGE
    captured = capsys.readouterr()
    assert captured.out == "" and "usage: rooflens" in captured.err and "--nonsense" in captured.err


def test_every_subcommand_but_the_server_takes_json(capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert ("--json" in capsys.readouterr().out) == (name != "serve"), name


def test_words_are_inert_and_json_has_no_control_characters_or_nan(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31mk\u202e<img src=x onerror=alert(1)>"
    assert tell(Outcome({"kernel": hostile, "figure": float("nan")}, [hostile], 7), as_json=False) == 7
    words = capsys.readouterr().out
    assert tell(Outcome({"kernel": hostile, "figure": float("nan")}, [hostile], 7), as_json=True) == 7
    as_json = capsys.readouterr().out
    assert all(c not in words + as_json for c in ("\x1b", "\u202e", "<img"))
    assert json.loads(as_json)["figure"] is None


def test_words_that_do_the_work_are_read_before_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    facts: dict[str, int] = {}

    def working():  # type: ignore[no-untyped-def]
        yield "one"
        facts["done"] = 1

    tell(Outcome(facts, working()), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"done": 1}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_status_stays_where_the_reader_went_away(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert tell(Outcome({"a": 1}, ["one", "two"], outcome.REGRESSED), as_json) == outcome.REGRESSED
        assert main(["nonsense", "--json"]) == outcome.USAGE


def test_an_interrupt_ends_with_its_status_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "choose_store", interrupted)
    assert main(["tools"]) == outcome.INTERRUPTED
    assert capsys.readouterr().err == ""
