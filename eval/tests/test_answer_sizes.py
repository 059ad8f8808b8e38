"""The measurement of answers: what counts as their size, and what is too long."""

from __future__ import annotations

import answer_sizes
from answer_sizes import Size


def test_medians_and_the_longest_are_told_and_what_is_above_the_limit_is_missed() -> None:
    sizes = [Size("compute_metrics", name, text, 600) for name, text in (("a", 600), ("b", 800), ("c", 2_000))]
    found = answer_sizes.scores(sizes)
    assert found["compute_metrics"]["text_median"] == 800 and found["compute_metrics"]["worst"] == "c"
    assert [s.split(":")[0] for s in answer_sizes.missed(found)] == ["compute_metrics"]
    assert "800" in answer_sizes.report(found)[1]
    assert answer_sizes.scores([]) == {} and answer_sizes.report({}) == []
