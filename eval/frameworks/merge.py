"""Keeps the longest launch of each range of a recorded page, named after the range.

python eval/frameworks/merge.py PAGE OUT.csv.gz KERNELS.csv
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from interventions.merge import page

TIME = "gpu__time_duration.sum"
_RANGE = re.compile(r"<default domain>:(\w+):")
_WHERE = {"Process ID": "0", "Process Name": "python3", "Host Name": "host"}


def main(source: Path, out: Path, kernels: Path) -> None:
    """Write the launches, and a table with the kernel of each and its share of the time of the operation."""
    names, units, *body = page(source)
    at = {name: i for i, name in enumerate(names)}
    of_range = next(i for i, name in enumerate(names) if "Push/Pop" in name)
    by_case: dict[str, list[list[str]]] = {}
    for row in body:
        if told := _RANGE.search(row[of_range]):
            by_case.setdefault(told[1], []).append(row)

    def time(row: list[str]) -> float:
        return float(row[at[TIME]].replace(",", ""))

    chosen = {case: max(rows, key=time) for case, rows in by_case.items()}
    with kernels.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["case", "launches", "share_pct", "kernel"])
        for case, row in chosen.items():
            share = 100 * time(row) / sum(map(time, by_case[case]))
            writer.writerow([case, len(by_case[case]), f"{share:.1f}", row[at["Kernel Name"]]])
    for number, (case, row) in enumerate(chosen.items()):
        row[at["Kernel Name"]], row[at["ID"]] = case, str(number)
        for column, told in _WHERE.items():
            row[at[column]] = told
    kept = [i for i, name in enumerate(names) if i != of_range and any(row[i] for row in chosen.values())]
    with gzip.open(out, "wt", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerows([[row[i] for i in kept] for row in (names, units, *chosen.values())])


if __name__ == "__main__":
    main(*(Path(word) for word in sys.argv[1:4]))
