"""`rooflens history`: the time and work of a kernel over commits, and where they changed by more than the noise."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...analysis.base.problems import NotFound
from ...analysis.store.store import Store
from ..terminal.outcome import Misuse, Outcome

if TYPE_CHECKING:
    from ...analysis.comparison.work import Quantity
    from ...tools.team.history import HistoryEntry

HELP = "show a kernel's time and work over commits, and where they changed by more than the noise"
_COLUMNS = ("created", "commit", "branch", "workload", "device", "n", "median us", "time ratio", "95 %",
            "work", "verdict")  # fmt: skip
_SHORT = 10
_ALIKE = 0.005
"""The relative difference up to which amounts of work are shown as equal."""


def arguments(parser: ArgumentParser) -> None:
    """Define the arguments of the command."""
    parser.add_argument("kernel", metavar="KERNEL", help="its name, or a regular expression that is searched in names")
    parser.add_argument(
        "--tag", action="append", default=[], help="only workloads with this tag, or branch=, host=, name= (repeatable)"
    )
    parser.add_argument("--last", metavar="N", type=int, default=30, help="the newest N workloads of each kernel (30)")


def execute(options: Namespace, store: Store) -> Outcome:
    """Print each kernel's times over the workloads, oldest first."""
    from ...tools.team.history import history
    from ...tools.team.workload_choice import choose_workloads

    if options.last < 1:
        raise Misuse(f"--last {options.last} is not a valid number of workloads", "Give 1 or more")
    if not options.kernel.strip():
        raise Misuse("The name of the kernel is empty", "Give a name; . selects every kernel")
    manifests = choose_workloads(store, [], options.tag, every=not options.tag)
    try:
        entries = history(store, options.kernel, manifests, options.last)
    except NotFound as problem:
        if any(options.kernel in (one.name, one.id) for one in manifests):
            what, why = f"{options.kernel!r} is a workload", "history follows a kernel over all workloads"
            fix = f"`rooflens show {options.kernel}` lists its kernels; --tag name={options.kernel} takes only its runs"
            raise NotFound(what, why, fix) from problem
        raise
    return Outcome({"history": [_row(entry) for entry in entries]}, _words(entries))


def _words(entries: Sequence[HistoryEntry]) -> Iterator[str]:
    for kernel in dict.fromkeys(entry.kernel for entry in entries):
        of_kernel = [entry for entry in entries if entry.kernel == kernel]
        yield kernel
        yield from _grid([_COLUMNS, *map(_cells, of_kernel)])
        for entry in of_kernel:
            if told := _work_change_text(entry):
                yield f"  {told}"
    yield "time ratio: to the previous level (the first, then each beyond the noise); above 1 is slower"
    yield "work: the work of a launch as a multiple of the level's, and whether it was the same work"
    if any(entry.work and entry.work.answer == "unknown" for entry in entries):
        yield "work unknown: only times are compared; collect counters of work (metrics roofline, overview) to know"


def _work_change_text(entry: HistoryEntry) -> str:
    """A sentence if a launch does, or may do, different work than at the level; otherwise None."""
    if entry.work is None or entry.level is None:
        return ""
    commit = f" ({entry.manifest.commit[:_SHORT]})" if entry.manifest.commit else ""
    if entry.verdict == "other_work":
        return f"{entry.manifest.id}{commit}: different work than in {entry.level.id}: {entry.work.why}"
    amount = entry.amount
    if entry.work.answer == "unknown" and amount and not _alike(amount):
        return (
            f"{entry.manifest.id}{commit}: {_amount(entry)} of those in {entry.level.id} for each launch, and nothing "
            "that both counted says whether that is the same work"
        )
    return ""


def _alike(amount: Quantity) -> bool:
    return amount.ratio is not None and abs(amount.ratio - 1) <= _ALIKE


def _amount(entry: HistoryEntry) -> str:
    amount = entry.amount
    return "" if amount is None or amount.ratio is None else f"{amount.title} x {amount.ratio:.3g}"


def _row(entry: HistoryEntry) -> dict[str, Any]:
    from ...analysis.store.schema import iso

    one, change, work, amount = entry.manifest, entry.change, entry.work, entry.amount
    return {
        "workload": one.id, "name": one.name, "created": iso(one.created_ns), "commit": one.commit,
        "branch": one.branch, "host": one.host, "arch": one.arch, "device": one.device, "kernel": entry.kernel,
        "n": entry.launches, "median_ns": entry.median_ns, "level": entry.level.id if entry.level else None,
        "time_ratio": 1 / change.speedup if change else None,
        "low": 1 / change.high if change and change.high else None,
        "high": 1 / change.low if change and change.low else None,
        "same_work": work.answer if work else None, "same_work_why": work.why if work else None,
        "work": {"quantity": amount.quantity, "level": amount.before, "here": amount.after} if amount else None,
        "verdict": entry.verdict, "why": change.why if change else None,
    }  # fmt: skip


def _cells(entry: HistoryEntry) -> tuple[str, ...]:
    row = _row(entry)
    between = f"{row['low']:.3f}-{row['high']:.3f}" if row["low"] and row["high"] else ""
    ratio = f"{row['time_ratio']:.3f}" if row["time_ratio"] else ""
    words = (row["created"], (row["commit"] or "")[:_SHORT], row["branch"] or "", row["name"], row["device"] or "")
    times = (str(row["n"]), f"{row['median_ns'] / 1e3:.3f}", ratio, between)
    return (*words, *times, ", ".join(filter(None, (_amount(entry), row["same_work"]))), row["verdict"])


def _grid(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
