"""The error of a run that failed, beside those of the analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..analysis.base.problems import Problem

if TYPE_CHECKING:
    from ..tools.get_run import RunResult


class RunFailed(Problem):
    """A run that ended without what it was started for; ``result`` has its output, and its id for the files it left."""

    def __init__(self, result: RunResult) -> None:
        self.result = result
        what = result.problem or f"The run {result.run_id} was {result.state}"
        printed = f"It printed: {result.output}" if result.output else ""
        kept = f"What had finished is workload {result.workload}" if result.workload else ""
        super().__init__(what, printed, kept)
