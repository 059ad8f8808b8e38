"""No text of the product says "1 launches": numbers of things go through ``count_text``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rooflens.analysis.base.text import count_text
from rooflens.tests import ROOT

THINGS = re.compile(
    r" (columns|configurations|counters|dispatches|events|figures|files|instructions|kernels|launches|lines|metrics"
    r"|passes|processes|ranks|replays|rows|runs|samples|values|workloads)\b"
)
SEVERAL = {
    ("analysis/comparison/time_ratio.py", "n[1]"), ("analysis/comparison/sentences.py", "compared.rounds[1]"),
    ("analysis/comparison/sentences.py", "counts[1]"), ("analysis/launches/coverage.py", "self.launches"),
    ("analysis/plot/timeline_content.py", "name"), ("analysis/plot/roofline_content.py", "inputs.formulas.words.wave"),
    ("tools/answers/comparison_tables.py", "min(changes.totals)"),
    ("tools/profiles/checks/impossible_values.py", "launches"), ("tools/diagnose_bottleneck.py", "manifest.ranks"),
    ("analysis/comparison/gate.py", "len(known)"), ("analysis/store/dispatch_ids.py", "high"),
    ("tools/query_counters.py", "of"),
    ("tools/profiles/ncu/code.py", "number"), ("tools/running/drivers/rocprofv3/pc_sampling.py", "version"),
    ("tools/profiles/samples/sample_tables.py", "rows"),
    ("tools/compute_metrics.py", "combine"), ("tools/rendering/layout.py", "total"),
    ("tools/rendering/render.py", "len(longest.rows)"),
}  # fmt: skip
"""Of which there are always several, whose progress is told, or that stand for words."""


def numbered(path: Path) -> Iterator[tuple[str, str, str]]:
    """What is filled in directly before a word for several things: file, expression, word."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            if found := THINGS.match(str(text.value)):
                yield path.relative_to(ROOT).as_posix(), ast.unparse(value.value), found[1]


def is_limit(expression: str) -> bool:
    """Whether a constant is filled in."""
    return bool(re.fullmatch(r"(?:\w+\.)?_?[A-Z][A-Z_]+", expression))


def test_what_is_counted_has_the_number_of_its_noun() -> None:
    said = [count_text(n, what) for n in (0, 1, 1200) for what in ("kernel", "copy", "launch", "process")]
    assert said == [
        "0 kernels", "0 copies", "0 launches", "0 processes", "1 kernel", "1 copy", "1 launch", "1 process",
        "1,200 kernels", "1,200 copies", "1,200 launches", "1,200 processes",
    ]  # fmt: skip
    assert (count_text(1, "row has", "rows have"), count_text(2, "row has", "rows have")) == (
        "1 row has",
        "2 rows have",
    )


def test_no_number_stands_before_a_word_for_several_things() -> None:
    found = [
        one
        for folder in ("analysis", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for one in numbered(path)
        if not one[1].startswith("count_text(") and not is_limit(one[1]) and one[:2] not in SEVERAL
    ]
    assert not found
