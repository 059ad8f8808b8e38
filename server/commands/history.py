"""`rooflens history`: a kernel's time over commits, and where it changed beyond the noise."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...analysis.store import Store
from ..outcome import Misuse, Outcome

if TYPE_CHECKING:
    from ...tools.team.history import Entry

HELP = "a kernel's time over commits, and where it changed beyond the noise"
_COLUMNS = ("created", "commit", "branch", "workload", "device", "n", "median us", "time ratio", "95 %", "verdict")
_SHORT = 10


def arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("kernel", metavar="KERNEL", help="its name, or a regular expression searched in names")
    parser.add_argument(
        "--tag", action="append", default=[], help="only workloads with this tag, or branch=, host=, name= (repeatable)"
    )
    parser.add_argument("--last", metavar="N", type=int, default=30, help="the newest N workloads of a kernel (30)")


def run(options: Namespace, store: Store) -> Outcome:
    """Each kernel's times over the workloads, oldest first."""
    from ...tools.team.choice import chosen
    from ...tools.team.history import history

    if options.last < 1:
        raise Misuse(f"--last {options.last} is no number of workloads", "Give 1 or more")
    if not options.kernel.strip():
        raise Misuse("The name of the kernel is empty", "Name one; . is every kernel")
    manifests = chosen(store, [], options.tag, every=not options.tag)
    entries = history(store, options.kernel, manifests, options.last)
    return Outcome({"history": [_row(entry) for entry in entries]}, _words(entries))


def _words(entries: Sequence[Entry]) -> Iterator[str]:
    for kernel in dict.fromkeys(entry.kernel for entry in entries):
        yield kernel
        yield from _grid([_COLUMNS, *(_cells(entry) for entry in entries if entry.kernel == kernel)])
    yield "time ratio: to the level before (the first, then each that differs beyond the noise); above 1 is slower"
    yield "Times alone are compared: whether two workloads did the same work, compare_workloads says."


def _row(entry: Entry) -> dict[str, Any]:
    from ...analysis.schema import iso

    one, change = entry.manifest, entry.change
    return {
        "workload": one.id, "name": one.name, "created": iso(one.created_ns), "commit": one.commit,
        "branch": one.branch, "host": one.host, "arch": one.arch, "device": one.device, "kernel": entry.kernel,
        "n": entry.launches, "median_ns": entry.median_ns, "level": entry.level.id if entry.level else None,
        "time_ratio": 1 / change.speedup if change else None,
        "low": 1 / change.high if change and change.high else None,
        "high": 1 / change.low if change and change.low else None,
        "verdict": entry.verdict, "why": change.why if change else None,
    }  # fmt: skip


def _cells(entry: Entry) -> tuple[str, ...]:
    row = _row(entry)
    between = f"{row['low']:.3f}-{row['high']:.3f}" if row["low"] and row["high"] else ""
    ratio = f"{row['time_ratio']:.3f}" if row["time_ratio"] else ""
    words = (row["created"], (row["commit"] or "")[:_SHORT], row["branch"] or "", row["name"], row["device"] or "")
    return (*words, str(row["n"]), f"{row['median_ns'] / 1e3:.3f}", ratio, between, row["verdict"])


def _grid(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
