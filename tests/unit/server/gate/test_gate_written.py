"""What a gate writes for a CI: no name can act in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from rooflens.analysis.comparison.gate import Gate, Item
from rooflens.server.gate import gate_text

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example)",
    "@everyone see #1 and https://evil.example www.evil.example a@b.example",
    "a|b\\|c | ``` `x` | <script>",
    "k\x00\x01\x1b[31m\u202eevil\ufffe\ud800\n::error::injected",
    "##[error]injected ##[add-mask]x",
    "::stop-commands::x",
    "%0A::error::injected",
    "*" * 3000,
    "",
    "~~ ** __ $x$ ![i](//e)",
]


def found(*items: Item, verdict: str = "fail") -> Gate:
    return Gate(verdict, list(items), [], None)  # type: ignore[arg-type]


def items(names: Sequence[str]) -> list[Item]:
    statuses = ("pass", "fail", "inconclusive", "new")
    codes = ("within", "beyond", "noise", "new")
    return [
        Item("kernel", name, statuses[n % 4], codes[n % 4], name, 0.03, 0.1, 0.05, 0.15, 0.025, 1e6, 1.1e6)  # type: ignore[arg-type]
        for n, name in enumerate(names)
    ]


def test_no_name_acts_in_a_summary() -> None:
    text = gate_text.markdown(found(*items(HOSTILE)), HOSTILE[0])
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = list(parser.parse(text))
    kinds = {token.type for token in tokens} | {c.type for token in tokens for c in token.children or []}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "fence", "strong_open", "em_open", "s_open"}
    rows = sum(token.type == "tr_open" for token in tokens)
    cells = sum(token.type in ("td_open", "th_open") for token in tokens)
    assert (rows, cells) == (1 + len(HOSTILE), 8 * (1 + len(HOSTILE))), "no name breaks the table"
    outside = re.sub(r"(`+) .*? \1", "", text)
    assert "@" not in outside and not re.search(r"#\w", outside), "no mention, no reference"
    assert "://" not in outside and "www." not in outside, "nothing that becomes a link by itself"


def test_a_summary_shows_names_as_they_are() -> None:
    text = gate_text.markdown(found(*items(["std::plus<float>(a|b, char const*)"])), "t")
    cell = next(
        t
        for t in MarkdownIt("commonmark").enable("table").parse(text)
        if t.children and t.children[0].type == "code_inline"
    )
    assert cell.children and cell.children[0].content.strip() == "std::plus<float>(a|b, char const*)"


def test_no_line_is_a_command_to_a_runner() -> None:
    gate = found(*items(HOSTILE))
    for line in gate_text.lines(gate):
        assert not line.lstrip().startswith("::") and "##[" not in line and "\n" not in line and "\x1b" not in line


def test_facts_are_percentages_and_missing_ones_null() -> None:
    facts = gate_text.facts(
        found(Item("kernel", "k", "new", "new", "only in the candidate", share=0.25), *items(["a"]))
    )
    new, old = facts["items"]
    assert (new["share_pct"], new["change_pct"], new["limit_pct"]) == (25, None, None)
    assert (old["change_pct"], old["limit_pct"], old["status"]) == (10, 3, "pass")
    assert facts["counts"] == {"new": 1, "pass": 1}
    metrics = [Item("metric", "k", "pass", "within", "w", 0.05, metric="m", relative=r) for r in (True, False)]
    limits = [(i["limit_pct"], i["limit"]) for i in gate_text.facts(found(*metrics))["items"]]
    assert limits == [(5, None), (None, 0.05)]


def test_a_long_table_is_cut_and_says_so(tmp_path: Path) -> None:
    text = gate_text.markdown(found(*items([f"k{i}" for i in range(500)])), "t")
    assert "and 400 more." in text and len(text) < 100_000
