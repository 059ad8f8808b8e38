"""The sentence that begins an answer: it states what was asked, and the text adds to it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.analysis.catalogue.rules import Advice
from rooflens.analysis.catalogue.vocabulary import entry_in_vendor_terms, in_vendor_terms
from rooflens.analysis.store.store import Store
from rooflens.server.mcp import toolbox
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored
from rooflens.tools.answers import sentences
from rooflens.tools.base.results import Result
from rooflens.tools.rendering import render


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("sentences"))
    for name in ("yax_before", "h200_kernels"):
        stored(store, ROOT / "server" / "samples" / name, name)
    return store


def answered(store: Store, tool: str, **arguments: Any) -> tuple[str, str]:
    """The first sentence, and the text of an answer."""
    result = toolbox.answer(store, tool, arguments)
    assert isinstance(result, Result) and result.answer
    return result.answer, render.text(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "states"),
    [
        ("compute_metrics", {"workload": "yax_before", "metrics": ["occupancy.waves"]}, "has no value: counter GRBM"),
        ("query_counters", {"sql": "SELECT count(*) AS n FROM workloads"}, "n = 2"),
        ("query_counters", {"sql": "SELECT * FROM workloads WHERE false"}, "The query returns no rows."),
        ("list_devices", {}, "This machine has "),
    ],
)
def test_the_first_line_answers(tool: str, arguments: dict[str, Any], states: str, store: Store) -> None:
    sentence, text = answered(store, tool, **arguments)
    assert states in sentence
    assert text.splitlines()[0] == sentence


def test_rows_that_speak_for_themselves_have_no_sentence(store: Store) -> None:
    result = toolbox.answer(store, "query_counters", {"sql": "SELECT name, arch FROM workloads"})
    assert isinstance(result, Result) and result.answer is None and render.text(result).startswith("table\n")


def test_a_text_about_nvidia_uses_nvidias_words_and_names_of_metrics_stay(store: Store) -> None:
    _, text = answered(store, "diagnose_bottleneck", workload="h200_kernels", top_n=10)
    sentences_only = re.sub(r"[a-z_]+\.[a-z_]+", "", text)
    assert not re.search(r"\b(LDS|work-groups?|wavefronts?|VGPRs?|CUs?)\b", sentences_only)
    assert "shared memory" in text and "warp" in text and "lds." in text


def test_words_are_replaced_only_as_whole_words_and_keep_their_case() -> None:
    text = "Waves in work-groups use LDS (shared memory), lds.bw_gbs, occupancy.waves and load_LDS."
    told = "Warps in thread blocks use shared memory, lds.bw_gbs, occupancy.waves and load_LDS."
    assert in_vendor_terms(text, "sm_90") == told
    assert in_vendor_terms(text, "gfx90a") == in_vendor_terms(text, None) == text
    advice = entry_in_vendor_terms(Advice(do="LDS is full: use less LDS.", source="here"), "sm_90")
    assert advice.do == "Shared memory is full: use less shared memory."


def test_names_that_a_sentence_quotes_keep_their_words() -> None:
    figure = SimpleNamespace(waves_per_cu=8, occupancy_pct=12.5)
    text = sentences.sentence("occupancy.allowed", "sm_90", figure=figure, limiters="LDS of wave<int>", unknown="?")
    assert text == "Resources (LDS of wave<int>) allow 8 warps per SM, 12.5 %. ?."
