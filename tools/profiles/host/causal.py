"""Read the experiments of causal profiling that rocprof-sys and Omnitrace write (experiments.json).

In an experiment, all threads pause while others run the selected code, as if that code were faster by a percentage. It
states its duration without these pauses, and how often each progress point was passed meanwhile. What the program gains
is the time per progress against that in experiments without a speed-up, as AMD's rocprof-sys-causal-print computes it.
(rocprofiler-systems, library/causal/experiment.cpp)
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ....analysis.base.problems import BadInput
from ...base.profile_files import files_of_format, head, open_text
from ...base.untrusted_text import plain_text
from ..merging.contract import PassTable, parquet
from ..parsing.json_stream import JsonCut, elements
from ..parsing.spool import Spool
from ..reader import Profile, ProfileFiles
from .files import one_file

_BEGIN = re.compile(rb'\s*\{\s*"(?:rocprofsys|omnitrace)"\s*:\s*\{\s*"causal"\s*:')
_FIRST_BYTES, _TEXT = 4096, 1000
_ENTERED = ("causal", "records")
_PLACE = {"function": "VARCHAR", "file": "VARCHAR", "line": "BIGINT"}
_EXPERIMENT = _PLACE | {"progress_point": "VARCHAR", "speedup": "DOUBLE", "duration": "DOUBLE", "passed": "BIGINT"}
_SAMPLE = _PLACE | {"count": "BIGINT"}


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with one."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return files_of_format(path, (".json",), lambda file: _BEGIN.match(head(file, _FIRST_BYTES)) is not None)


def read(files: ProfileFiles) -> Profile:
    """Return the experiments at ``files.path``; BadInput if there are none, or the file is damaged."""
    file = one_file(files, _files(files.path), "causal profiling")
    experiments = Spool(files.con, files.work / "causal", _EXPERIMENT)
    samples = Spool(files.con, files.work / "causal_samples", _SAMPLE)
    try:
        with open_text(file) as stream:
            for path, value in elements(stream, lambda path: path[1:] in ((), ("causal",), _ENTERED)):
                if path[1:] == (*_ENTERED, "experiments"):
                    experiments.add(_experiment(value))
                elif path[1:] == (*_ENTERED, "samples"):
                    samples.add(_sample(value))
    except (JsonCut, json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadInput(f"{file.name} is damaged", f"it is not what rocprof-sys writes: {error}") from error
    if not experiments.rows:
        raise BadInput(f"{file.name} contains no experiments", "the program passed no progress point")
    return Profile(
        vendor=None,
        name=file.name.split(".")[0],
        tool="rocprof-sys",
        passes=[PassTable("main", file)],
        tables={"causal": _table(parquet(experiments.close()), parquet(samples.close()))},
    )


def _experiment(stated: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return a row for each progress point that was passed. Without the address of a symbol, a line was selected."""
    selection = stated["selection"]
    function, file, line = _place(selection["info"])
    place = (function, file, None if selection["symbol_address"] else line)
    counted = {point["name"]: point.get("delta") or point.get("arrival") or 0 for point in stated["progress_points"]}
    figures = float(stated["virtual_speedup"]), float(stated["duration"])
    return [(*place, plain_text(name, _TEXT), *figures, int(n)) for name, n in counted.items() if n > 0]


def _sample(stated: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return a row for the function of a sample, and one for each of its lines."""
    info, count = stated["info"], int(stated["count"])
    function, file, line = _place(info)
    lines = {(file, line), *((_text(one["file"]), int(one["line"])) for one in info.get("dwarf_info") or ())}
    return [(function, file, None, count), *((function, *one, count) for one in sorted(lines) if one[1])]


def _place(info: dict[str, Any]) -> tuple[str, str, int]:
    return _text(info.get("dfunc") or info["func"]), _text(info["file"]), int(info["line"])


def _text(value: Any) -> str:
    return plain_text(str(value), _TEXT)


def _table(experiments: str, samples: str) -> str:
    """Return SQL for the table causal."""
    code = "CASE WHEN line IS NULL THEN function ELSE concat(file, ':', line) END"
    return (
        f"WITH e AS (SELECT {code} AS code, any_value(function) AS function, any_value(file) AS file, line, "
        "progress_point, speedup, sum(duration) / sum(passed) AS ns, count(*) AS experiments "
        f"FROM {experiments} GROUP BY code, line, progress_point, speedup), "
        f"s AS (SELECT {code} AS code, sum(count)::BIGINT AS samples FROM {samples} GROUP BY code) "
        "SELECT e.function, nullif(e.file, '') AS file, e.line::INTEGER AS line, e.progress_point, "
        "e.speedup AS virtual_speedup_pct, 100 * (b.ns - e.ns) / nullif(b.ns, 0) AS program_speedup_pct, "
        "e.experiments, s.samples FROM e LEFT JOIN e b ON b.code = e.code AND b.progress_point = e.progress_point "
        "AND b.speedup = 0 LEFT JOIN s ON s.code = e.code ORDER BY e.code, e.progress_point, virtual_speedup_pct"
    )
