"""Recordings of stacks of the host, whole to begin with and then spoilt: those of the cases of their readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from rooflens.tests.cases.readers.case import FOLDER
from rooflens.tests.fuzz.mutations import Draw, lines, octets, packed, tree
from rooflens.tests.fuzz.profiles import Spoilt

_LONGEST = 20_000


def _recordings(*formats: str) -> list[Path]:
    """The files of the cases of formats."""
    return sorted(file for name in formats for file in (FOLDER / name).glob("*/profile/*") if file.suffix != ".log")


@st.composite
def text(draw: Draw) -> Spoilt:
    """Texts of perf script, collapsed stacks, and austin."""
    file = draw(st.sampled_from(_recordings("perf-script", "collapsed")))
    content = lines(draw, file.read_text(encoding="utf-8")[:_LONGEST])
    return Spoilt({file.name: packed(draw, octets(draw, content))}, draw(st.sampled_from(["", file.name])))


@st.composite
def documents(draw: Draw) -> Spoilt:
    """JSON of py-spy and speedscope."""
    file = draw(st.sampled_from(_recordings("py-spy", "speedscope")))
    whole = json.loads(file.read_text(encoding="utf-8"))
    content = json.dumps(tree(draw, whole[:80] if isinstance(whole, list) else whole), separators=(",", ":"))
    return Spoilt({file.name: packed(draw, content.encode("utf-8", "surrogatepass"))}, file.name)


@st.composite
def binary(draw: Draw) -> Spoilt:
    """MOJO of austin, and samples in Perfetto traces."""
    file = draw(st.sampled_from(_recordings("austin", "perfetto")))
    return Spoilt({file.name: octets(draw, file.read_bytes()[:_LONGEST], 1)}, file.name)


READERS: dict[str, Callable[[], st.SearchStrategy[Spoilt]]] = {
    "host texts": text, "host documents": documents, "host binaries": binary,
}  # fmt: skip
