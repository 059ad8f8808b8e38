"""Messages read as sentences: each part begins with a capital, unless it begins with a name or with code."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

from rooflens.analysis.base import problems
from rooflens.analysis.base.extensions import install_command
from rooflens.analysis.base.problems import BadInput, Problem, command_advice, join_sentences
from rooflens.tests import ROOT

KINDS = {name for name, kind in vars(problems).items() if isinstance(kind, type) and issubclass(kind, Problem)}
WORD_AFTER_A_STOP = re.compile(r"(?<=[^.][.!?] )([a-z]+) [a-z]")


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("it was deleted", "It was deleted."),
        (" no counters were asked for ", "No counters were asked for."),
        ("times (of kernels) do not tell", "Times (of kernels) do not tell."),
        ("compute_metrics has them", "compute_metrics has them."),
        ("gfx942 has none", "gfx942 has none."),
        ("ncu numbers what it counts", "ncu numbers what it counts."),
        ("./app is in /tmp: write that", "./app is in /tmp: write that."),
        ("list_workloads() shows them", "list_workloads() shows them."),
        ("a.csv: line 3", "a.csv: line 3."),
        ("waves <- waves", "waves <- waves."),
    ],
)
def test_a_part_begins_as_a_sentence_and_a_name_as_it_is(why: str, said: str) -> None:
    assert Problem("Nothing is there", why).text == f"Nothing is there. {said}"
    assert Problem("Nothing is there", "", why).text == f"Nothing is there. {said}"


def test_what_happened_may_begin_with_the_name_of_the_callers_thing() -> None:
    assert BadInput("copy is damaged", "it ends early").text == "copy is damaged. It ends early."


def test_a_command_keeps_its_case_and_stands_on_a_line_of_its_own() -> None:
    problem = Problem("It cannot be read", "a package is missing", command_advice("Install it", "uv pip install numpy"))
    assert problem.text == "It cannot be read. A package is missing. Install it:\n  uv pip install numpy"
    command = install_command("numpy")
    assert Problem("It failed", "", command_advice("Install it", command)).text.splitlines()[1].strip() == command


def literal(node: ast.expr) -> Iterator[str]:
    """What is said for certain in an argument; X for what is filled in, which keeps a name apart from words."""
    if isinstance(node, ast.IfExp):
        yield from literal(node.body)
        yield from literal(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def messages(kinds: Set[str] = KINDS) -> list[tuple[str, int, str]]:
    """Every reason and remedy of the product that is known before it runs, with its place."""
    return [
        (path.name, call.lineno, text)
        for folder in ("analysis", "tools", "server", "api")
        for path in (ROOT / folder).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in kinds
        for given in [*call.args[1:], *(k.value for k in call.keywords if k.arg in ("why", "fix"))]
        for text in literal(given)
    ]


COMMAND = re.compile(r"(?<![\w/])(uv pip|pip install|sudo|chmod|modprobe|apt-get|ncu --\w+|nsys export)\b")


def wordings() -> list[tuple[str, int, str]]:
    """The reasons and remedies of problems whose wording is data."""
    files = (file for folder in ("analysis", "tools", "server", "api") for file in (ROOT / folder).rglob("*.toml"))
    found: list[tuple[str, int, str]] = []

    def collect(file: Path, value: object) -> None:
        if isinstance(value, dict):
            found.extend((file.name, 0, value[key]) for key in ("why", "fix") if isinstance(value.get(key), str))
            for part in value.values():
                collect(file, part)

    for file in files:
        if file.name in ("wording.toml", "errors.toml", "sentences.toml"):
            collect(file, tomllib.loads(file.read_text(encoding="utf-8")))
    return found


def remedies_of_data() -> list[tuple[str, int, str]]:
    """What known failures and defects of profilers advise."""
    file = ROOT / "tools" / "running" / "known_failures.toml"
    entries = [entry for table in tomllib.loads(file.read_text(encoding="utf-8")).values() for entry in table]
    return [(file.name, 0, entry[key]) for entry in entries for key in ("fix", "instead") if key in entry]


def test_no_message_of_the_product_has_a_command_within_a_sentence() -> None:
    said = [*messages(KINDS | {"HostSetting", "CounterPermission"}), *wordings(), *remedies_of_data()]
    sentences = [(*place, re.sub(r"`[^`]*`|\n  .*", "", text)) for *place, text in said]
    assert len(said) > 600 and [entry for entry in sentences if COMMAND.search(entry[-1])] == []


def test_what_follows_a_command_begins_on_a_new_line() -> None:
    advice = command_advice("Install it", "uv pip install numpy")
    assert join_sentences("It failed", advice, "Its samples were skipped", "") == (
        "It failed. Install it:\n  uv pip install numpy\nIts samples were skipped."
    )


def test_no_message_of_the_product_goes_on_in_lower_case_after_a_stop() -> None:
    parts = [*messages(), *wordings()]
    assert len(parts) > 500
    wrong = [
        (*place, found[1])
        for *place, text in parts
        for found in WORD_AFTER_A_STOP.finditer(Problem("It failed", text).text)
        if found[1] not in problems._WORDLIKE
    ]
    assert not wrong
