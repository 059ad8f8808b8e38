"""The child process that calls one rooflens function for a job, so that it can crash, hang or be killed without harm.

``python -m rooflens.tools.running.worker`` reads {"store", "function", "arguments", "folder"} from standard input,
writes ``answer.json`` ({"result"} or {"problem"}) into the folder, and updates ``progress.json`` while it works.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...analysis.base.problems import Problem
from ...analysis.store.store import Store, write_atomically
from .run_state import ProblemText

ANSWER, PROGRESS = "answer.json", "progress.json"


class CallProgress:
    """Lets a function report its progress: ``progress(share, activity, result)``."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS

    def __call__(self, share: float, activity: str, result: Mapping[str, Any] | None = None) -> None:
        """Publish the finished share of the work (0 to 1), the current activity, and the results so far."""
        write_atomically(
            self._path, json.dumps({"progress": share, "activity": activity, "result": dict(result or {})})
        )


def main() -> None:
    """Call the function that standard input names, as ``CallStep.of`` wrote it."""
    task = json.load(sys.stdin)
    folder = Path(task["folder"])
    module, _, name = task["function"].partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        answer = {"result": function(Store.locate(task["store"]), CallProgress(folder), **task["arguments"])}
    except Problem as problem:
        answer = {"problem": ProblemText.of(problem).model_dump()}
    write_atomically(folder / ANSWER, json.dumps(answer))


if __name__ == "__main__":
    main()
