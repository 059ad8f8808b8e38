"""Answers that follow from a workload and a few arguments alone: they are stored and read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ...analysis.tables.derived import ceilings_digest, stored_value
from ...analysis.workload import Workload
from ..base.results import Result

R = TypeVar("R", bound=Result)


def stored_answer(opened: Workload, kind: type[R], arguments: dict[str, Any], compute: Callable[[], R]) -> R:
    """Return the answer of a tool to these arguments, from its file or computed now.

    It is computed anew after a change of the code or data of analysis and answers, or of the measured ceilings.
    """
    asked = json.dumps([arguments, opened.name, ceilings_digest(opened.store), _code_digest()])
    name = f"{kind.__name__}-{hashlib.sha256(asked.encode()).hexdigest()[:16]}"
    return stored_value(opened, name, kind, compute)


@cache
def _code_digest() -> str:
    """Return a digest of the code and wording of answers; that of the analysis is in the path of the file."""
    tools, hasher = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted((*tools.glob("*.py"), *tools.glob("answers/*.*"), *tools.glob("base/*.py"))):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]
