"""The child of report.py: write the launches of a report file as a raw page, in base units and full precision.

Run as a file by a fresh interpreter, so that a damaged report can only end this process; it imports the standard
library and ncu_report only. Arguments: report, page to write, folder of ncu_report, seconds of CPU time. Its exit
status is one of those below.
"""

import csv
import ctypes
import importlib
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

NO_PACKAGE, NO_REPORT, NO_LAUNCHES = 3, 4, 5
_ADDRESS_SPACE = 6_000_000_000
_PAGE_BYTES = 4_000_000_000
_CC = "device__attribute_compute_capability_"
_OWN = ("ID", "Process ID", "Kernel Name", "Stream", "Block Size", "Grid Size", "Device", "CC")


def main() -> int:
    """Read one report; the exit status tells how it went."""
    report, page, package, seconds = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
        _limit(resource.RLIMIT_AS, _ADDRESS_SPACE)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, _PAGE_BYTES)
    _limit(resource.RLIMIT_CPU, int(seconds))
    sys.path.append(package)
    try:
        ncu_report: Any = importlib.import_module("ncu_report")
    except ImportError as error:
        print(error, file=sys.stderr)
        return NO_PACKAGE
    try:
        context = ncu_report.load_report(report)
    except (RuntimeError, ValueError, TypeError, OSError, MemoryError) as error:
        print(error, file=sys.stderr)
        return NO_REPORT
    if context is None:
        return NO_REPORT
    actions = [a for r in map(context.range_by_idx, range(context.num_ranges())) for a in _actions(r)]
    if not actions:
        return NO_LAUNCHES
    units: dict[str, str] = {}  # in a report a metric has the same unit, a base unit, in every launch
    for action in actions:
        for name in action.metric_names():
            if name not in units and ":" not in name:
                units[name] = action.metric_by_name(name).unit() or ""
    with Path(page).open("w", encoding="utf-8", errors="replace", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        out.writerow([*_OWN, *units])
        out.writerow([*[""] * len(_OWN), *units.values()])
        for number, action in enumerate(actions):
            cells = {name: _cell(action.metric_by_name(name)) for name in units}
            out.writerow([*_launch(number, action, cells), *cells.values()])
    return 0


def _actions(found: Any) -> list[Any]:
    return [found.action_by_idx(i) for i in range(found.num_actions())]


def _launch(number: int, action: Any, cells: dict[str, str]) -> list[str]:
    """The cells of ``_OWN``; a report does not tell the process."""
    block, grid = (
        "({}, {}, {})".format(*(cells.get(f"launch__{kind}_dim_{axis}", "") for axis in "xyz"))
        for kind in ("block", "grid")
    )
    capability = ".".join(cells.get(_CC + part, "") for part in ("major", "minor")).strip(".")
    name = action.name(action.NameBase_DEMANGLED) or action.name()
    return [
        str(number), "", name, cells.get("launch__stream_id", ""), block, grid,
        cells.get("launch__device_id", ""), capability,
    ]  # fmt: skip


def _cell(metric: Any) -> str:
    """The value of a metric as text; nothing where it has none, for which the library would answer 0."""
    if metric is None or not metric.has_value():
        return ""
    value = metric.value()
    return "" if value is None else repr(value) if isinstance(value, float) else str(value).replace("\n", " ")


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    os._exit(main())  # the library's own clean-up may hang on what it could not read
