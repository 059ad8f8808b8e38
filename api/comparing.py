"""A baseline compared with candidates, whole; its picture is that of the first candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..analysis.store import Store
from ..analysis.text import cut
from ..analysis.workload import Workload
from ..tools.comparison_tables import EVERYTHING
from ..tools.profilers.tables.names import noted
from .asking import changing, checked
from .workload import OpenWorkload

if TYPE_CHECKING:
    from ..tools.compare_workloads import CompareResult
    from ..tools.plot import Drawn
    from .answers import Comparison

_SUMMARY = 300
"""Characters of the summary in the picture."""


def compare(
    store: Store, baseline: str | OpenWorkload, candidates: Sequence[str | OpenWorkload], options: Mapping[str, Any]
) -> Comparison:
    """The answer of compare_workloads with nothing left out. ``options`` are its further arguments."""
    from ..tools.compare_workloads import Asked, compare_workloads, compared
    from ..tools.plot import compared as drawn
    from .answers import Comparison
    from .pictures import WIDTH_PX

    words = [_word(one) for one in (baseline, *candidates)]
    given = checked(compare_workloads, {**options, "baseline": words[0], "candidate": words[1:]})
    kernel, by = given["kernel"], given["by"]
    asked = Asked(
        words[0],
        words[1:],
        kernel,
        by,
        given["group"],
        given["checked"],
        noted(given["hypothesis"]),
        noted(given["change"]),
    )
    with changing(store):
        found = compared(store, asked, EVERYTHING)

    def drawing() -> Drawn:
        ids = found.baseline, found.candidates[0]
        with (
            changing(store),
            Workload.open(store, ids[0], kernel, by) as before,
            Workload.open(store, ids[1], kernel, by) as after,
        ):
            return drawn(before, after, kernel, WIDTH_PX, _outcome(found))

    return Comparison(found, drawing)


def _outcome(found: CompareResult) -> str:
    """What was found of the baseline and the first candidate, in words."""
    verdict, same_work = found.verdict, found.same_work
    if len(found.candidates) > 1:
        first = dict(zip(found.kernels.columns, found.kernels.rows[1], strict=True))
        verdict, same_work = first["verdict"], first["same_work"]
    return f"Verdict: {verdict}. Same work: {same_work}. {cut(found.summary, _SUMMARY)}"


def _word(workload: str | OpenWorkload) -> str:
    return workload if isinstance(workload, str) else workload.id
