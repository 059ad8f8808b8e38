"""Merges counter pages of ncu into one that uses the kernel names of the suite.

python merge.py OUT.csv.gz PAGE ORDER [PAGE ORDER ...]     an ORDER file has one line per launch: kernel grid block
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections.abc import Mapping
from pathlib import Path


def page(path: Path) -> list[list[str]]:
    """The rows of a raw page: names, units, launches. Other output of ncu is skipped."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    return list(csv.reader(line for line in lines[start:] if line.startswith('"')))


def launches(path: Path, order: Path) -> tuple[list[str], list[str], list[list[str]]]:
    """Names, units and rows with the names of the suite. Raises ValueError if a row does not match its launch."""
    rows = page(path)
    if len(rows) < 3:
        return [], [], []
    names, units = rows[0], rows[1]
    body = [row for row in rows[2:] if len(row) == len(names)]  # the last row is incomplete if ncu was terminated
    at = {name: i for i, name in enumerate(names)}
    for row, line in zip(body, order.read_text(encoding="utf-8").splitlines(), strict=False):
        kernel, grid, block = line.split()
        found = [re.findall(r"\d+", row[at[column]])[0] for column in ("Grid Size", "Block Size")]
        if found != [grid, block]:
            raise ValueError(f"{path}: {kernel} is launched with {grid} {block}, the page says {found}")
        row[at["Kernel Name"]] = kernel
    return names, units, body


def main(out: Path, pairs: list[Path], constants: Mapping[str, tuple[str, str]] | None = None) -> None:
    """Write one merged page; ``constants`` are columns with the same value for every launch: unit and value."""
    constants = constants or {}
    columns: list[str] = []
    units: dict[str, str] = {}
    given = {name: value for name, (_, value) in constants.items()}
    rows: list[dict[str, str]] = []
    for path, order in zip(pairs[::2], pairs[1::2], strict=True):
        try:
            names, of_names, body = launches(path, order)
        except (ValueError, IndexError, KeyError) as problem:
            print(f"left out {path}: {problem!r}")
            continue
        for name, unit in zip(names, of_names, strict=True):
            if name not in units:
                units[name] = unit
                columns.append(name)
        rows += [given | dict(zip(names, row, strict=True)) for row in body]
    columns += [name for name in constants if name not in units]
    units = {name: unit for name, (unit, _) in constants.items()} | units
    for number, row in enumerate(rows):
        row["ID"] = str(number)
    whole = out.with_name(f"{out.name}.part")
    with gzip.open(whole, "wt", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerow([units[name] for name in columns])
        writer.writerows([[row.get(name, "") for name in columns] for row in rows])
    whole.replace(out)
    print(f"{len(rows)} launches with {len(columns)} columns")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
