"""The child of report.py: write the launches of a report file as a raw page, in base units and full precision.

The arguments are report, page (to write) and package (the folder of ncu_report). It sends one message: what went wrong
(``problem``, one of those below or null) and what the library says of it (``said``).
"""

import csv
import importlib
import sys
from pathlib import Path
from typing import Any

from ...isolation.channel import Channel

NO_PACKAGE, NO_REPORT, NO_LAUNCHES = "no package", "no report", "no launches"
_CC = "device__attribute_compute_capability_"
_OWN = ("ID", "Process ID", "Kernel Name", "Stream", "Block Size", "Grid Size", "Device", "CC")


def write_page(channel: Channel, job: dict[str, Any]) -> None:
    """Read one report."""
    problem, said = _written(job["report"], job["page"], job["package"])
    channel.send({"problem": problem, "said": said[-2000:]})


def _written(report: str, page: str, package: str) -> tuple[str | None, str]:
    sys.path.append(package)
    try:
        ncu_report: Any = importlib.import_module("ncu_report")
    except ImportError as error:
        return NO_PACKAGE, str(error)
    try:
        context = ncu_report.load_report(report)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        return NO_REPORT, str(error)
    if context is None:
        return NO_REPORT, ""
    actions = [a for r in map(context.range_by_idx, range(context.num_ranges())) for a in _actions(r)]
    if not actions:
        return NO_LAUNCHES, ""
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
    return None, ""


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
