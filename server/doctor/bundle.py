"""doctor --bundle: a zip file with what a maintainer needs, which users can read before they send it."""

from __future__ import annotations

import io
import json
import os
import platform
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ... import __version__
from ...analysis.base.problems import StoreProblem
from ...analysis.base.text import visible_lines
from ...analysis.store.store import Store
from ...tools.device.machine.model import Check
from ...tools.list_workloads import list_workloads
from ...tools.running import run_state as runs
from ..terminal.wording import problem
from .scrubber import Scrubber, here

_LOG = 60_000
"""The maximum number of bytes of a log, from its end."""
# Fields are listed by name, so that new fields are not included unnoticed. Variables are not among them.
_ASKED = {"kind", "steps", "timeout_s", "profiler", "profiler_version", "counters", "mode", "gpu"}
_ENDED = {"state", "finished", "cut", "step", "fault", "status", "problem", "partial", "warnings"}


def bundle(store: Store, path: Path, checks: Sequence[Check]) -> list[str]:
    """Write the zip file, and return lines that tell what it contains. Raises BadArgument if the file exists."""
    scrubber, content = here(), io.BytesIO()
    told = [f"{path} contains, without variables, secrets, host and user names as far as they can be recognised:"]
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in texts(store, checks, scrubber).items():
            clean = visible_lines(scrubber.text(text))
            packed.writestr(name, clean.encode("utf-8", "replace"))
            told.append(f"  {name} ({len(clean):,} characters)")
    write_new(path, content.getvalue())
    return [*told, "Read it before you send it."]


def texts(store: Store, checks: Sequence[Check], scrubber: Scrubber) -> dict[str, str]:
    """The texts before they are scrubbed: what doctor found, the workloads, and the newest failed run."""
    found = {"rooflens": __version__, "platform": platform.platform(), "checks": [c.model_dump() for c in checks]}
    listed = list_workloads(store).table.model_dump()
    return {"doctor.txt": _json(found), "workloads.txt": _json(listed), **_failed_run(store, scrubber)}


def _json(value: object) -> str:
    """A value as JSON with its line breaks and tabs, because names are not recognised behind the letters of escapes."""
    encoded = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    return encoded.replace("\\n", "\n").replace("\\t", "\t")


def _failed_run(store: Store, scrubber: Scrubber) -> dict[str, str]:
    """The request of the newest failed run, how it ended, and the ends of its logs."""
    for folder in reversed(runs.folders(store)):
        try:
            record, state = runs.inspect_run(store, folder)
        except StoreProblem:
            continue
        if state.state == "failed":
            asked = record.model_dump(include=_ASKED)
            if isinstance(record, runs.ProfileRun):
                asked["command"] = scrubber.command(record.command)
            logs = [*sorted((folder / runs.LOGS).glob("*")), folder / runs.SUPERVISOR_LOG]
            ends = {f"failed_run/{log.name}": _end(log) for log in logs if log.is_file()}
            return {"failed_run.txt": _json({"request": asked, "outcome": state.model_dump(include=_ENDED)}), **ends}
    return {}


def _end(path: Path) -> str:
    """The end of a log. It begins with a whole line, so that no part of a secret remains."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - _LOG))
            cut, text = handle.tell() > 0, handle.read(_LOG).decode("utf-8", "replace")
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return text.partition("\n")[2] if cut else text


def write_new(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read. Raises BadArgument if it exists or cannot be written."""
    try:
        with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
            file.write(content)
    except OSError as error:
        raise problem("unwritten_bundle", file=path, why=error) from error


def refuse_existing(path: Path) -> None:
    """Raise BadArgument if the path exists, even as a dangling link."""
    if path.exists() or path.is_symlink():
        raise problem("file_exists", file=path)
