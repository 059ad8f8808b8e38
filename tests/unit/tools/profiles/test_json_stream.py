"""Elements of arrays are the same whether they are parsed many at a time or one by one."""

from __future__ import annotations

import io
import json
import random

import pytest

from rooflens.tools.profiles.parsing import json_stream
from rooflens.tools.profiles.parsing.json_stream import JsonCut, elements

ODD = [
    {"name": "a},{b", "args": {"list": [{"x": 1}, {"y": [2, {"z": 3}]}]}},
    {"name": '"}, {"', "ts": 1790857026123456.789},
    {"empty": {}},
    {},
    {"nested": [{"a": 1}, {"b": 2}]},
]


def of(text: str, **more: bool) -> list[object]:
    """The elements of the list in the member "list"."""
    found = elements(io.BytesIO(text.encode()), lambda path: not path, **more)
    return [value for path, value in found if path == ("list",)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n  ", ": ")])
def test_elements_are_those_of_a_whole_parse_wherever_a_batch_ends(monkeypatch, seed, separators):
    draw = random.Random(seed)
    monkeypatch.setattr(json_stream, "_BATCH", draw.choice([64, 150, 400]))
    monkeypatch.setattr(json_stream, "_END_OF_BATCH", 60)
    monkeypatch.setattr(json_stream, "_BLOCK", 100)
    monkeypatch.setattr(json_stream, "_SINGLE", 2)
    values = [draw.choice([*ODD, 7, None, {"n": draw.random()}]) for _ in range(300)]
    text = json.dumps({"before": 1, "list": values, "after": {}}, separators=separators)
    assert of(text) == values
    assert of(text, numbers_as_text=True) == json.loads(text, parse_float=str)["list"]


def test_a_text_that_ends_within_an_element_is_cut_whatever_was_parsed_before(monkeypatch):
    monkeypatch.setattr(json_stream, "_BATCH", 200)
    text = json.dumps({"list": [{"number": n} for n in range(100)]})
    for end in (text.index("}, {") + 3, len(text) // 2, len(text) - 3):
        with pytest.raises(JsonCut):
            of(text[:end])
