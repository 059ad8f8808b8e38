"""A gate as JUnit XML: one test case for each item, in the form of Ant's schema, which CI systems read."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from ...analysis.base.text import shorten, visible
from ...analysis.comparison.gate import Gate, Item

_LONGEST = 2000
_NANO = 1e-9


def junit(gate: Gate, title: str, *, inconclusive_fails: bool = False) -> str:
    """The document: failures for what fails, skipped for what was not decided or stands on one side alone.

    A case's time is the candidate's, in seconds. Kernels that were not judged are left out.
    """
    items = [item for item in gate.items if item.status != "ignored"]
    failing = {"fail", "inconclusive"} if inconclusive_fails else {"fail"}
    failures = sum(item.status in failing for item in items)
    skipped = sum(item.status not in failing and item.status != "pass" for item in items)
    whole = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        whole, "testsuite",
        {
            "name": _token(title), "package": "rooflens", "id": "0", "hostname": "localhost",
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"), "tests": str(len(items)),
            "failures": str(failures), "errors": "0", "skipped": str(skipped), "time": _seconds(items),
        },
    )  # fmt: skip
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", {"name": "verdict", "value": gate.verdict})
    for item in items:
        name = f"{item.name}: {item.metric}" if item.metric else item.name
        case = ElementTree.SubElement(
            suite, "testcase",
            {"name": _token(name), "classname": f"rooflens.gate.{item.kind}", "time": _seconds([item])},
        )  # fmt: skip
        if item.status in failing:
            failure = ElementTree.SubElement(case, "failure", {"message": _token(item.why), "type": item.code})
            failure.text = _token(item.why)
        elif item.status != "pass":
            ElementTree.SubElement(case, "skipped", {"message": _token(item.why)})
    ElementTree.SubElement(suite, "system-out").text = "\n".join(_token(note.text) for note in gate.notes)
    ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(whole)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"


def _token(text: str) -> str:
    """Text that XML can hold: without controls, surrogates and noncharacters, and never empty."""
    return shorten(" ".join(visible(text).split()), _LONGEST) or "(no name)"


def _seconds(items: list[Item]) -> str:
    spent = sum(item.candidate or 0.0 for item in items if item.metric is None and item.kind == "kernel")
    return f"{spent * _NANO:.9f}"
