"""The child of report.py: write the launches of a report file as a raw page, in base units and full precision.

The job has the keys report, page (to write), package (the folder of ncu_report) and mangled (whether to write mangled
kernel names, as the recorder of a timing run does, or names as ncu shows them). The child sends one message with
``problem`` (one of the constants below, or None) and ``said`` (the message of the library). If launches have metrics
per instruction, these are written to ``code`` as a source page whose columns have the names of the metrics, and the
source text in the report is written to ``text``.
"""

import csv
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...isolation.channel import Channel

NO_PACKAGE, NO_REPORT, NO_LAUNCHES = "no package", "no report", "no launches"
_CC = "device__attribute_compute_capability_"
_EXECUTED, _SAMPLES = "inst_executed", "smsp__pcsamp_sample_count"
_PER_PLACE = re.compile(
    r"(thread_)?inst_executed(_true)?|smsp__pcsamp_(sample_count|warps_issue_stalled_\w+)"
    r"|memory_(l1_wavefronts_shared|l2_theoretical_sectors_(global|local))(_ideal)?|smsp__branch_targets_threads_divergent"
)
_WORD, _LONGEST = 16, 16 << 20
"""Bytes of an instruction since Volta, and of the longest kernel that is listed without gaps."""
_MOST_SOURCE, _MOST_LINE = 4 << 20, 400
"""Maximum characters of source text read from a report, and of one line."""
_OWN = ("ID", "Process ID", "Kernel Name", "Stream", "Block Size", "Grid Size", "Device", "CC")


def write_page(channel: Channel, job: dict[str, Any]) -> None:
    """Read one report and send the result."""
    problem, message = _write_report(job)
    channel.send({"problem": problem, "said": message[-2000:]})


def _write_report(job: dict[str, Any]) -> tuple[str | None, str]:
    report, page = job["report"], job["page"]
    sys.path.append(job["package"])
    try:
        ncu_report = importlib.import_module("ncu_report")
    except ImportError as error:
        return NO_PACKAGE, str(error)
    try:
        context = ncu_report.load_report(report)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        return NO_REPORT, str(error)
    if context is None:
        return NO_REPORT, ""
    ranges = map(context.range_by_idx, range(context.num_ranges()))
    actions = [a for r in ranges for a in map(r.action_by_idx, range(r.num_actions()))]
    if not actions:
        return NO_LAUNCHES, ""
    units = {}
    for action in actions:
        for name in action.metric_names():
            if name not in units and ":" not in name:
                units[name] = action.metric_by_name(name).unit() or ""
    with _table_file(Path(page)) as out:
        out.writerow([*_OWN, *units])
        out.writerow([*[""] * len(_OWN), *units.values()])
        for number, action in enumerate(actions):
            cells = {name: _cell(action.metric_by_name(name)) for name in units}
            out.writerow([*_launch(number, action, cells, mangled=job["mangled"]), *cells.values()])
    sampled = [action for action in actions if _places(action)]
    if sampled:
        _write_code(sampled, Path(job["code"]), mangled=job["mangled"])
        _write_text(sampled, Path(job["text"]))
    return None, ""


@contextmanager
def _table_file(path: Path) -> Iterator[Any]:
    """Open a CSV file to write; yield what writes its rows."""
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        yield csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")


# -- per-instruction data ------------------------------------------------------------------------


def _places(action: Any) -> list[int]:
    """Return the addresses for which a launch has metrics."""
    return list(_by_place(action, _EXECUTED) or _by_place(action, _SAMPLES))


def _write_code(actions: list[Any], path: Path, *, mangled: bool) -> None:
    with _table_file(path) as out:
        for action in actions:
            columns = {name: _by_place(action, name) for name in action.metric_names() if _PER_PLACE.fullmatch(name)}
            sizes = [_size(action, "grid") * _size(action, "block"), _size(action, "block")]
            out.writerow(["Kernel Name", _name(action, mangled=mangled), *(sizes if all(sizes) else [])])
            out.writerow(["Address", "Source", "File", "Line", *columns])
            places = {*_places(action), *(place for values in columns.values() for place in values)}
            # In order, and including the addresses in between without metrics.
            ordered = sorted(places)
            if max(places) - min(places) <= _LONGEST:
                ordered = list(range(min(places), max(places) + 1, _WORD))
            for place in ordered:
                text = action.sass_by_pc(place)
                if not text:
                    continue
                line = action.source_info(place)
                where = (line.file_name(), line.line()) if line else ("", "")
                cells = (values.get(place, "") for values in columns.values())
                out.writerow([hex(place), text.replace("\n", " "), *where, *cells])


def _by_place(action: Any, name: str) -> dict[int, int]:
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_correlation_ids() or metric.num_instances() < 2:
        return {}
    ids = metric.correlation_ids()
    return {ids.as_uint64(i): metric.as_uint64(i) for i in range(metric.num_instances())}


def _size(action: Any, kind: str) -> int:
    size = 1
    for axis in "xyz":
        metric = action.metric_by_name(f"launch__{kind}_dim_{axis}")
        size *= metric.as_uint64() if metric is not None and metric.has_value() else 0
    return size


def _write_text(actions: list[Any], path: Path) -> None:
    """Write the source files that a report contains and its line tables refer to, up to a limit."""
    files = {}
    left = _MOST_SOURCE
    for action in actions:
        for name, text in dict(action.source_files()).items():
            if name not in files and text and len(text) <= left:
                files[name] = text
                left -= len(text)
    with _table_file(path) as out:
        for name, text in files.items():
            out.writerows((name, number, line[:_MOST_LINE]) for number, line in enumerate(text.split("\n"), 1) if line)


def _launch(number: int, action: Any, cells: dict[str, str], *, mangled: bool) -> list[str]:
    """Return the cells of ``_OWN``; a report does not state the process."""
    block, grid = (
        "({}, {}, {})".format(*(cells.get(f"launch__{kind}_dim_{axis}", "") for axis in "xyz"))
        for kind in ("block", "grid")
    )
    capability = ".".join(cells.get(_CC + part, "") for part in ("major", "minor")).strip(".")
    return [
        str(number), "", _name(action, mangled=mangled), cells.get("launch__stream_id", ""), block, grid,
        cells.get("launch__device_id", ""), capability,
    ]  # fmt: skip


def _name(action: Any, *, mangled: bool) -> str:
    base = action.NameBase_MANGLED if mangled else action.NameBase_DEMANGLED
    return str(action.name(base) or action.name())


def _cell(metric: Any) -> str:
    """Return the value of a metric as text; empty if it has none, for which the library would return 0."""
    if metric is None or not metric.has_value():
        return ""
    value = metric.value()
    return "" if value is None else repr(value) if isinstance(value, float) else str(value).replace("\n", " ")
