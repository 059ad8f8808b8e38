"""With every reason and note in other words, every number, status, verdict and code of an answer stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rooflens.analysis.notes import Note, Reason
from rooflens.analysis.problems import Problem
from rooflens.analysis.store import Store
from rooflens.server import render, toolbox

SAMPLES = Path(__file__).resolve().parents[1] / "server" / "samples"
PROFILES = {path.parent.name: path.parent for path in SAMPLES.glob("*/*.csv")} | {
    path.parent.name: path for path in SAMPLES.glob("*/*.csv.gz")
}
PROSE = {"reason", "reasons", "why", "note", "summary", "undecided", "warnings", "tried"}
"""Fields and columns that are sentences; of notes the number is compared, of next calls the tool and its arguments."""
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("compute_metrics", {"metrics": ["*"], "detail": "full"}),
    ("compute_metrics", {"metrics": ["*"], "by_kernel": True, "aggregation": "mean"}),
    ("diagnose_bottleneck", {"top_n": 50, "detail": "full"}),
    ("diagnose_bottleneck", {"top_n": 3}),
    ("compute_roofline", {"kind": "flop"}),
    ("compute_roofline", {"kind": "flop", "ceiling_source": "theoretical"}),
    ("compute_roofline", {"kind": "instruction"}),
]


def answers(root: Path) -> dict[str, Any]:
    """Everything that is asked of the samples, imported into a store of their own; ids by their names."""
    store = Store(root)
    given: dict[str, Any] = {}

    def ask(tool: str, **arguments: Any) -> None:
        answer = toolbox.answer(store, tool, arguments)
        plain = [type(answer).__name__] if isinstance(answer, Problem) else render.structured(answer)
        given[f"{tool} {json.dumps(arguments)}".replace(str(root), "")] = plain

    for name, path in sorted(PROFILES.items()):
        ask("import_profile", path=str(path), name=name)
    for name in sorted(PROFILES):
        for tool, arguments in QUESTIONS:
            ask(tool, workload=name, **arguments)
    for detail in ("summary", "full"):
        ask("compare_workloads", baseline="yax_before", candidate="yax_after", detail=detail)
        ask("compare_workloads", baseline="h200_kernels", candidate="yax_before", detail=detail)
    ask("compare_workloads", baseline="yax_before", candidate=["yax_after", "yax_before"])
    text = json.dumps(given)
    for manifest in store.scan()[0]:
        text = text.replace(manifest.id, manifest.name)
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def facts(answer: Any, *, prose: bool = False) -> Any:
    """An answer without its sentences, or only these, by their places."""
    return {path: value for path, value in _leaves(answer, "") if prose == bool(PROSE & {*path.split(".")})}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and isinstance(value.get("rows"), list):
        for i, row in enumerate(value["rows"]):
            for column, cell in zip(value["columns"], row, strict=True):
                yield from _leaves(cell, f"{path}.rows.{i}.{column}")
        yield from _leaves({k: v for k, v in value.items() if k != "rows"}, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "notes":
                yield f"{path}.notes", len(inner)
            elif key == "next":
                yield f"{path}.next", [(call["tool"], call["arguments"]) for call in inner]
            else:
                yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{i}")
        yield f"{path}.length", len(value)
    else:
        yield path, value


def reworded(kind: type) -> Callable[..., None]:
    """An initialiser that turns every text around."""
    plain = kind.__init__

    def initialise(self: Any, code: str, text: str, *others: Any, **more: Any) -> None:
        plain(self, code, "x" + text[::-1], *others, **more)

    return initialise


def test_other_words_give_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = answers(tmp_path / "usual")
    for kind in (Reason, Note):
        monkeypatch.setattr(kind, "__init__", reworded(kind))
    other = answers(tmp_path / "other")
    assert list(usual) == list(other)
    for question, answer in usual.items():
        before, after = facts(answer), facts(other[question])
        changed = {path: (before.get(path), after.get(path)) for path in before | after}
        assert not {p: pair for p, pair in changed.items() if pair[0] != pair[1]}, question


def test_the_words_really_were_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    toolbox.call(store, "import_profile", {"path": str(PROFILES["yax_before"]), "name": "yax_before"})
    question = ("compute_metrics", {"workload": "yax_before", "metrics": ["*"]})
    usual = facts(render.structured(toolbox.call(store, *question)), prose=True)
    monkeypatch.setattr(Reason, "__init__", reworded(Reason))
    other = facts(render.structured(toolbox.call(store, *question)), prose=True)
    assert usual.keys() == other.keys()
    reasons = [path for path, text in usual.items() if isinstance(text, str)]
    assert reasons and all(other[path].startswith("x") and other[path] != usual[path] for path in reasons)
