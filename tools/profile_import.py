"""The end of a profiling run, in a worker: what the profiler wrote becomes a workload, as by import_profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..analysis.experiments import Entry, record
from ..analysis.store import Manifest, Store
from .collectors.merge import Merged
from .importing import imported
from .jobs.worker import Tell

_NAMED = 12
PARTIAL = "partial"
"""Tag of a workload for which not every run of the program finished."""


def save(
    store: Store,
    tell: Tell,
    *,
    out: str,
    finished: list[str],
    stopped: str | None,
    steps: int,
    name: str,
    tags: list[str],
    target: str,
    command: str,
    host: str,
    warnings: list[str],
    wanted: Mapping[str, list[str]] | None = None,
    device_uuid: str | None = None,
    hypothesis: str = "",
    change: str = "",
) -> dict[str, Any]:
    """Import the output folder of a run; ``stopped`` says why only the ``finished`` of all steps are in it.

    ``wanted`` are the counters of each step: those that a finished step did not bring are named in a warning.
    ``device_uuid`` is that of the one device that the program could use. ``hypothesis`` and ``change`` go into the
    experiment log.
    """
    tell(0.0, "importing")
    marks = [*tags, PARTIAL] if stopped else tags
    said = [*warnings]
    if stopped:
        said.insert(0, f"Partial: {len(finished)} of {steps} runs of the program ({', '.join(finished)}). {stopped}")

    def amend(manifest: Manifest, merged: Merged) -> None:
        manifest.name, manifest.tags = name, marks
        manifest.arch = manifest.arch or target
        manifest.device_uuid = device_uuid
        manifest.command, manifest.host = command, manifest.host or host
        asked = [counter for step in finished for counter in (wanted or {}).get(step, [])]
        merged.warnings[:0] = said + _missing(asked, merged)

    done, merged = imported(store, Path(out), "auto", amend)
    if hypothesis or change:
        record(store, Entry(kind="profile", workload=done.id, hypothesis=hypothesis, change=change))
    return _summary(done, merged)


def _missing(asked: list[str], merged: Merged) -> list[str]:
    """Profilers leave out a counter that they do not know with no more than a line among their messages."""
    found = {*merged.counters, *(f"{event}[*]" for p in merged.passes for event, _ in p.instances.values())}
    lost = [counter for counter in dict.fromkeys(asked) if counter not in found]
    if not lost:
        return []
    named = ", ".join(lost[:_NAMED]) + (f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else "")
    return [
        f"counters: The profiler was asked for {named} and gave none: its version may not know them on this device."
    ]


def _summary(done: Manifest, merged: Merged) -> dict[str, Any]:
    return {
        "workload": done.id,
        "name": done.name,
        "arch": done.arch,
        "kernels": done.kernels,
        "dispatches": done.dispatches,
        "counters": len(done.counters),
        "warnings": merged.warnings,
    }
