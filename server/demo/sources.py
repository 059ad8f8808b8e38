"""Where the loop's profiles come from: measured on this machine, or taken out of a recording."""

from __future__ import annotations

import csv
import gzip
import io
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .loop import CallRefused, Measure, PreparedVersion, call

if TYPE_CHECKING:
    from mcp.client import Client

RECORDING = Path(__file__).parents[1] / "samples" / "h200_kernels" / "kernels.csv.gz"
METRICS = ("diagnosis", "roofline")
"""What is collected live: all that a diagnosis may ask for, since the next round would ask again."""
_WAIT_S = 45
_UNFINISHED = ("queued", "running")


def live(program: str, *, repeat: int = 9) -> Measure:
    """Measures by profile_command; ``program`` is that of examples/kernels: 1 + ``repeat`` launches of a kernel."""
    return partial(_profile_version, program, repeat)


async def _profile_version(program: str, repeat: int, client: Client, version: PreparedVersion) -> str:
    command = [program, version.kernel, "--repeat", str(repeat), "--check"]
    answer = await call(
        client, "profile_command", command=command, metrics=[*METRICS], kernel=version.kernel, name=version.kernel,
        wait_s=_WAIT_S,
    )  # fmt: skip
    while answer["state"] in _UNFINISHED:
        answer = await call(client, "get_run", run_id=answer["run_id"], wait_s=_WAIT_S)
    if answer["state"] != "done":
        said = [answer.get("problem"), answer.get("output")]
        raise CallRefused(f"{version.kernel} {answer['state']}: {' '.join(part for part in said if part)}")
    return str(answer["workload"])


def replay_recording(folder: Path, recording: Path = RECORDING) -> Measure:
    """Imports what was recorded of each version; the files that a profiler would have written go to ``folder``."""
    return partial(_import_version, folder, recording)


async def _import_version(folder: Path, recording: Path, client: Client, version: PreparedVersion) -> str:
    path = folder / f"{version.kernel}.csv"
    path.write_text(rows_of(recording, version.kernel), encoding="utf-8")
    answer = await call(client, "import_profile", path=str(path), name=version.kernel, tags=["sample"])
    return str(answer["workload"])


def rows_of(recording: Path, kernel: str) -> str:
    """The launches of one kernel out of a raw page of ncu, under its two lines of names and units.

    Raises Refused where it has none.
    """
    with gzip.open(recording, "rt", encoding="utf-8", newline="") as source:
        names, units, *rows = csv.reader(source)
    at = names.index("Kernel Name")
    launches = [row for row in rows if row[at].partition("(")[0] == kernel]
    if not launches:
        raise CallRefused(f"{recording.name} has no launch of {kernel}")
    kept = io.StringIO()
    csv.writer(kept, quoting=csv.QUOTE_ALL).writerows([names, units, *launches])
    return kept.getvalue()
