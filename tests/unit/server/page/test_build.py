"""The page is one file that runs its own script alone, whatever stands in the document."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from rooflens.analysis.base.text import visible_lines
from rooflens.server.page.build import pack_document, page
from rooflens.tools.base.results import table

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "{{script}}{{document}}",
    "\u2028\u2029'\"`${alert(1)}",
    "\u202eevil\u200b\x00\x1b[31m",
)


class Parts(HTMLParser):
    """The elements of a page, and the text of each script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.texts.append((self._inside, data))


def parsed(text: str) -> Parts:
    """The parts of a page."""
    parts = Parts()
    parts.feed(text)
    parts.close()
    return parts


def report(*names: str) -> dict[str, Any]:
    """A document that holds names where profiles do."""
    kernels = table({"kernel": None, "pct": "%"}, [[name, 1.5] for name in names]).model_dump()
    section = {"key": "kernels", "tool": "list_workloads", "arguments": {}, "answer": {"table": kernels, "notes": []}}
    workload = {"id": "w", "name": names[0], "arch": None, "device": None, "sections": {"kernels": section}}
    return {
        "format": 1, "rooflens": "0", "created": "now", "workloads": [{**workload, "rooflines": [], "events": None}],
        "comparisons": [], "short_names": {names[0]: "short"}, "cut": [],
    }  # fmt: skip


def test_the_policy_allows_this_script_and_style_and_nothing_else() -> None:
    parts = parsed(page(report("k")))
    policies = [a["content"] for tag, a in parts.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in str(policies[0]).split(";"))
    assert rules.pop("default-src") == "'none'"
    for kind, rule in (("script", "script-src"), ("style", "style-src")):
        (text,) = [t for tag, t in parts.texts if tag == kind and not t.startswith("{")]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules.pop(rule) == f"'sha256-{digest}'"
    assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}


def test_the_page_names_nothing_outside_of_it() -> None:
    text = page(None)
    addresses = set(re.findall(r"[a-z]+://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
    assert {a for a in addresses if not a.startswith("rooflens://report/")} == set()
    assert not {tag for tag, a in parsed(text).elements if a.get("src") or (a.get("href") or "#")[0] != "#"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_a_text_of_the_document(name: str) -> None:
    text = page(report(name), name)
    parts, harmless = parsed(text), parsed(page(report("k"), "k"))
    assert [tag for tag, _ in parts.elements] == [tag for tag, _ in harmless.elements]
    (held,) = [json.loads(t) for tag, t in parts.texts if tag == "script" and t.startswith("{")]
    assert held["workloads"][0]["name"] == visible_lines(name)
    assert not re.search("[\x00-\x08\x1b\u200b\u202e]", json.dumps(held, ensure_ascii=False).replace("\x01", ""))


def test_texts_of_tables_are_kept_once_and_figures_keep_what_is_shown() -> None:
    document = report("a kernel with a long name", "a kernel with a long name", "short")
    document["workloads"][0]["sections"]["kernels"]["answer"]["table"]["rows"] += [
        ["short", math.nan], ["short", 2**53 - 1], ["short", 0.123456789123], ["short", 8_592_050_000.0],
    ]  # fmt: skip
    held = json.loads(pack_document(document))
    rows = held["workloads"][0]["sections"]["kernels"]["answer"]["table"]["rows"]
    assert [row[0] for row in rows[:3]] == ["\x010", "\x010", "short"]
    assert held["texts"] == ["a kernel with a long name"]
    assert [row[1] for row in rows[3:]] == [None, 2**53 - 1, 0.12345679, 8_592_050_000]
    assert held["short_names"] == [["a kernel with a long name", "short"]]


def test_as_an_app_the_page_holds_no_document() -> None:
    assert [t for tag, t in parsed(page(None)).texts if t == "null"] == ["null"]
