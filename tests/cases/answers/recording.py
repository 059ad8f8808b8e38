"""Answers of a case, the file that holds what counts in them, and what differs between the two."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rooflens.analysis.store.store import Store
from rooflens.server.mcp import toolbox
from rooflens.tests.cases.answers.cases import ROOT, SHARED, Case
from rooflens.tests.cases.answers.facts import WHOLE_ROWS, codes_for_words, facts, plain

DATA = Path(__file__).with_name("data")
_NOTHING = "nothing"
_SHOWN = 160

Facts = dict[str, dict[str, Any]]
"""Tool with arguments -> place in its answer -> value."""


class Difference(NamedTuple):
    """One value of an answer that is not as it was recorded, as JSON or ``nothing``."""

    case: str
    question: str
    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"  {self.path}\n    before {_brief(self.before)}\n    after  {_brief(self.after)}"


def answers(case: Case, folder: Path) -> dict[str, dict[str, Any]]:
    """Everything that is asked of a case, in a new store below ``folder``; ids and folders by names."""
    store, given = Store(folder / "store"), {}

    def ask(tool: str, arguments: Mapping[str, Any], asked: Mapping[str, Any] | None = None) -> None:
        question = f"{tool} {json.dumps(arguments if asked is None else asked)}"
        given[question] = plain(toolbox.answer(store, tool, dict(arguments)))

    for number, profile in enumerate(case.profiles):
        (own := folder / str(number)).mkdir(parents=True)
        place = profile.place if isinstance(profile.place, Path) else profile.place(own)
        named = {} if profile.name is None else {"name": profile.name}
        ask("import_profile", {"path": str(place), **named}, {"profile": number, **named})
    for tool, arguments in case.questions:
        ask(tool, arguments)
    text = json.dumps(given)
    for number, manifest in enumerate(sorted(store.scan()[0], key=lambda manifest: manifest.created_ns)):
        text = text.replace(manifest.id, f"<workload {number}>")
    for known, name in ((folder, "<folder>"), (ROOT, "<rooflens>"), (SHARED, "<shared>")):
        text = text.replace(str(known), name)
    loaded: dict[str, dict[str, Any]] = json.loads(text)
    return loaded


def found(case: Case, folder: Path) -> Facts:
    """What counts in the answers of a case as it is now."""
    with codes_for_words():
        return {question: facts(answer) for question, answer in answers(case, folder).items()}


def recorded(case: Case) -> Facts:
    """What counted in the answers of a case when it was recorded; FileNotFoundError where it never was."""
    loaded: Facts = json.loads(lzma.decompress(_file(case).read_bytes()))
    return loaded


def record(case: Case, now: Facts) -> int:
    """Write what counts, in a file with the same bytes for the same facts; its size."""
    DATA.mkdir(exist_ok=True)
    text = json.dumps(now, ensure_ascii=False, separators=(",", ":"))
    _file(case).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return _file(case).stat().st_size


def superfluous(cases: Iterator[Case] | tuple[Case, ...]) -> list[Path]:
    """Files of cases that are no more."""
    return sorted(set(DATA.glob("*.json.xz")) - {_file(case) for case in cases})


def differences(case: Case, before: Facts, after: Facts) -> list[Difference]:
    """All that differs, in the order of the questions."""
    made = []
    for question in before | after:
        if json.dumps(before.get(question)) == json.dumps(after.get(question)):
            continue
        old, new = (dict(_values(side.get(question, {}))) for side in (before, after))
        for path in old | new:
            pair = old.get(path, _NOTHING), new.get(path, _NOTHING)
            if pair[0] != pair[1]:
                made.append(Difference(case.name, question, path, *pair))
    return made


def told(differing: list[Difference], most: int = 12) -> str:
    """Differences by question, of each the first ``most``."""
    lines: list[str] = []
    for case, question in dict.fromkeys((each.case, each.question) for each in differing):
        own = [each for each in differing if (each.case, each.question) == (case, question)]
        lines += [f"{case}: {question} differs in {len(own)} places", *map(str, own[:most])]
        if len(own) > most:
            lines.append(f"  ... and {len(own) - most} more")
    return "\n".join(lines)


def _values(of: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every value as JSON by its place; a cell is named by the texts that its row begins with."""
    for path, value in of.items():
        if not (isinstance(value, dict) and value.keys() == {"rows", "columns"}):
            yield path, json.dumps(value, ensure_ascii=False)
            continue
        yield f"{path} rows", str(value["rows"])
        yield f"{path} columns", json.dumps(list(value["columns"]))
        rows = _row_names(value["columns"], value["rows"])
        for name, column in value["columns"].items():
            yield f"{path} unit of {name}", json.dumps(column.get("unit"), ensure_ascii=False)
            cells = column.get("cells", [])
            for row, cell in zip(rows, cells, strict=False):
                yield f"{path} {row} {name}", json.dumps(cell, ensure_ascii=False)
            yield f"{path} all digits of {name} from row {WHOLE_ROWS} on", json.dumps(column.get("checksum"))


def _row_names(columns: Mapping[str, Any], count: int) -> list[str]:
    texts = [c["cells"] for c in columns.values() if "cells" in c and all(isinstance(v, str) for v in c["cells"])][:2]
    return [f"row {number} ({', '.join(cells[number] for cells in texts)})" for number in range(count)]


def _brief(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}{os.linesep}...".replace(os.linesep, " ")


def _file(case: Case) -> Path:
    return DATA / f"{case.name}.json.xz"
