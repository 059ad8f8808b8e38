"""The wording of readers' notes and refusals (merging/wording.toml) fits the calls that use it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import tomli

from rooflens.analysis.base.notes import Note
from rooflens.tests import ROOT
from rooflens.tools.profiles.merging.wording import note, refusal

PROFILES = ROOT / "tools" / "profiles"
WORDING: dict[str, Any] = tomli.loads((PROFILES / "merging" / "wording.toml").read_text(encoding="utf-8"))


def sentences() -> dict[str, list[str]]:
    """The texts by the function and the key that calls give."""
    known: dict[str, list[str]] = {}
    for code, wording in WORDING["notes"].items():
        own = (
            {f"{code}.{which}": text for which, text in wording.items()}
            if isinstance(wording, dict)
            else {code: wording}
        )
        known |= {f"note {key}": [text] for key, text in own.items()}
    return known | {f"refusal {key}": list(parts.values()) for key, parts in WORDING["refusals"].items()}


def calls() -> Iterator[tuple[str, set[str]]]:
    """The function, the key and the names of the values of every call."""
    for file in sorted(PROFILES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            key = node.args[0]
            if node.func.id in ("note", "refusal") and isinstance(key, ast.Constant):
                yield f"{node.func.id} {key.value}", {str(keyword.arg) for keyword in node.keywords}


def test_every_call_gives_exactly_the_values_that_its_wording_names() -> None:
    known, used = sentences(), set()
    for key, values in calls():
        named = {name for text in known[key] for _, name, _, _ in Formatter().parse(text) if name}
        assert values == named, key
        used.add(key)
    assert used == known.keys()


def test_lists_are_shown_up_to_their_limit_and_files_by_their_names(tmp_path: Path) -> None:
    passes = [f"pass_{n}" for n in range(6)]
    assert note("filtered.passes", kernels="gemm", passes=passes, missing=1) == Note(
        "filtered",
        "Only launches of gemm were counted in pass_0, pass_1, pass_2, pass_3 ...: 1 launch of other kernels have "
        "times but no counters.",
    )
    modified = note("modified", events=[f"event{n}" for n in range(10)])
    assert "event7 and 2 more (u: in user space only" in modified.text
    problem = refusal("several_files", path=tmp_path / "run", count=2, files=[tmp_path / "a.csv", tmp_path / "b.csv"])
    assert problem.text == "run contains 2 files of dispatches. a.csv, b.csv. Import them separately."
