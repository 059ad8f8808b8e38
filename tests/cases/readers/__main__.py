"""Writes what a new case gives today into its folder, to be read before it is committed.

python -m rooflens.tests.cases.readers tests/cases/readers/rocprofv3/my_profile
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from rooflens.analysis.store.store import Store
from rooflens.tests.cases.readers.case import ARGUMENTS, Outcome, ReaderCase


def record(case: ReaderCase) -> Outcome:
    """Write the rows and case.toml of a case, and return them."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = case.outcome(Store(Path(folder)))
    lines = [f"says = {json.dumps(case.said, ensure_ascii=False)}"] if case.said else []
    lines += [f'{name} = "{case.settings[name]}"' for name in ("path", *ARGUMENTS) if name in case.settings]
    if outcome.refused is not None:
        lines.append(f'refused = "{outcome.refused}"')
    if outcome.warnings:
        lines.append("warnings = [" + ", ".join(f'"{code}"' for code in outcome.warnings) + "]")
    for name, rows in outcome.rows.items():
        (case.folder / f"{name}.csv").write_text(rows, encoding="utf-8")
    if lines:
        (case.folder / "case.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return outcome


if __name__ == "__main__":
    for name in sys.argv[1:]:
        found = record(ReaderCase(Path(name).resolve()))
        codes = f"refused: {found.refused}" if found.refused else found.warnings
        print(name, codes, found.text, *found.rows.values(), sep="\n")
