"""The measured gains of the changes to the recorded operations, in the same form as for the generated kernels."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from interventions.scoring import BASE, Measured, Truth

HERE = Path(__file__).resolve().parent
TIMES, COUNTERS = HERE / "h200_times.csv", HERE / "h200_counters.csv.gz"
HALF = "frameworks"


def truths(path: Path = TIMES) -> list[Truth]:
    """Read every operation with changes from a file of times; gains are normalised to the work of the operation."""
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    found = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        of_case = [row for row in rows if row["kernel"] == name]
        base = next((float(row["time_us"]) for row in of_case if row["what"] == BASE), None)
        changed = [row for row in of_case if row["what"] != BASE]
        if base is None or not changed:
            continue
        measured = tuple(
            Measured(row["what"], base * float(row["work"]) / float(row["time_us"]), row["keeps_work"] == "1")
            for row in changed
        )
        found.append(Truth(name, HALF, name, "hbm", base, measured, whole=False))
    return found
