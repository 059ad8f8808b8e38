"""Writes what a new case gives today into its folder, to be read before it is committed.

python -m rooflens.tests.cases tests/cases/rocprofv3/my_profile
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rooflens.analysis.store.store import Store
from rooflens.tests.cases.case import ReaderCase


def record(case: ReaderCase) -> str:
    """Write expected.csv or case.toml of a case; returns what was written."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = case.outcome(Store(Path(folder)))
    lines = [f'{name} = "{case.stated[name]}"' for name in ("gpu", "format") if name in case.stated]
    if outcome.refused is not None:
        lines.append(f'refused = "{outcome.refused}"')
    elif outcome.rows is not None:
        (case.folder / "expected.csv").write_text(outcome.rows, encoding="utf-8")
        if outcome.warnings:
            lines.append(f"warnings = [{', '.join(f'{code!r}' for code in outcome.warnings)}]".replace("'", '"'))
    if lines:
        (case.folder / "case.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return outcome.refused or outcome.rows or ""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(record(ReaderCase(Path(name).resolve())))
