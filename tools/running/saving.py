"""Convert the results of a run into a workload: of all steps, or of those that finished and can be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ...analysis.base.notes import Note
from ...analysis.base.problems import Problem
from ...analysis.base.temporary_files import scratch
from ...analysis.base.text import first_few
from ...analysis.comparison.experiment_log import ExperimentEntry, record
from ...analysis.launches import device_clocks
from ...analysis.store.store import Manifest, Store
from ..base.profile_files import WORK, database, unreadable_as_bad_input
from ..profiles.host.own_run import sampled_run
from ..profiles.import_to_store import Beside, import_to_store
from ..profiles.merging.merge import StoredProfile
from ..profiles.registry import reader_for
from ..profiles.writer import read_into
from .host_sampling import FOLDER
from .program_revision import native
from .run_state import CLOCKS, UNFINISHED, ProblemText, ProfileRun, RunState, read_record, read_state
from .worker import CallProgress

_LOST_NAMED = 12
_TIMING, _ANSWER = "timing", "answer.json"
"""Folder of a run with the store of its imported timing run, and the file there with what ``save`` returns."""
PARTIAL = "partial"
"""Tag of a workload for which not every run of the program finished."""


def save(store: Store, progress: CallProgress, run_id: str) -> dict[str, Any]:
    """Import the results of the finished steps; if the state contains a problem, some steps are missing.

    Steps whose files cannot be read are moved aside and reported as ``problem`` in the answer. Counters that were
    requested from a finished step but not delivered are named in a warning.
    """
    progress(0.0, "importing")
    folder = store.run_folder(run_id)
    run, state = read_record(folder), read_state(folder)
    assert isinstance(run, ProfileRun)
    try:
        saved = _move_timing(store, folder, state) or _save_steps(store, folder, run, state)
    except Problem as problem:
        done = [*state.finished, *state.cut]
        lost = [name for name in done if not _readable(folder / run.out / name)]
        if not lost or len(lost) == len(done):
            raise
        (folder / UNFINISHED).mkdir(exist_ok=True)
        for name in lost:
            (folder / run.out / name).rename(folder / UNFINISHED / name)
        failure = ProblemText.of(problem)
        remaining = {name: [step for step in getattr(state, name) if step not in lost] for name in ("finished", "cut")}
        state = state.model_copy(update={**remaining, "problem": state.problem or failure})
        saved = {**_save_steps(store, folder, run, state), "problem": failure.model_dump()}
    if run.hypothesis or run.change:
        entry = ExperimentEntry(
            kind="profile",
            workload=saved["workload"],
            hypothesis=run.hypothesis,
            change=run.change,
            binary=run.binary,
        )
        record(store, entry)
    return saved


def import_timing(folder: Path, run: ProfileRun, state: RunState) -> tuple[Store, str]:
    """Import the timing run of a run into a store in its folder, from which ``save`` takes it if nothing is counted.

    Return the store and the id of the workload. Raises the reader's error if the timing run cannot be read.
    """
    place = Store(folder / _TIMING)
    answer = _save_steps(place, folder, run, state)
    (folder / _TIMING / _ANSWER).write_text(json.dumps(answer), encoding="utf-8")
    return place, answer["workload"]


def _move_timing(store: Store, folder: Path, state: RunState) -> dict[str, Any] | None:
    """Move what ``import_timing`` imported into the store and return its summary, if there are no further results."""
    place = Store(folder / _TIMING)
    answer = place.root / _ANSWER
    try:
        if not answer.is_file() or len(state.finished) > 1 or state.cut or state.problem or state.remarks:
            return None
        saved: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        store.add(place, [place.resolve(saved["workload"])])
        return saved
    finally:
        shutil.rmtree(place.root, ignore_errors=True)


def _save_steps(store: Store, folder: Path, run: ProfileRun, state: RunState) -> dict[str, Any]:
    """Import all steps that ``state`` lists as finished or cut, and summarise the workload."""
    sampled = folder / CLOCKS
    samples = device_clocks.parse_samples(sampled.read_text(encoding="utf-8")) if sampled.exists() else []
    warnings = list(run.warnings)
    if state.problem:
        warnings.insert(0, _partial_text(run, state))

    def amend(manifest: Manifest, stored: StoredProfile) -> tuple[Manifest, list[Note]]:
        known = {
            "name": run.name,
            "tags": [*run.tags, PARTIAL] if state.problem else run.tags,
            "arch": manifest.arch or run.request.target,
            "host": manifest.host or run.host,
            "kernel_filter": run.request.kernel,
            **{name: getattr(run, name) for name in ("device_uuid", "link", "command", "binary", "commit", "branch")},
        }
        planned = state.remarks if stored.sampled or state.cut or state.skipped else []
        texts = [*warnings, *planned, *_missing_counters(run, state, stored)]
        notes = [*(Note("run", text) for text in texts), *device_clocks.held_back_notes(samples)]
        return manifest.model_copy(update=known), notes

    beside = Beside(samples, native(run.binary), sampled_run(folder / FOLDER))
    manifest, merged = import_to_store(store, folder / run.out, "auto", amend, beside)
    return {
        "workload": manifest.id,
        "name": manifest.name,
        "arch": manifest.arch,
        "kernels": manifest.kernels,
        "dispatches": manifest.dispatches,
        "counters": len(manifest.counters),
        "warnings": [warning.text for warning in merged.warnings],
    }


def _readable(step: Path) -> bool:
    """Whether the files of one step can be read on their own."""
    try:
        with unreadable_as_bad_input(step), scratch() as folder:
            work = folder / WORK
            work.mkdir()
            with database(step, work) as con:
                read_into(reader_for(step, "auto"), con, step, folder)
    except Problem:
        return False
    return True


def _partial_text(run: ProfileRun, state: RunState) -> str:
    """State which steps a workload is based on, and why some are missing."""
    assert state.problem is not None
    kept = [*state.finished, *(f"{step} in part" for step in state.cut)]
    planned = state.steps or run.steps
    # Until the counting steps are planned, their number is not known.
    share = "" if len(kept) == len(planned) else f"{len(kept)} of {len(planned)} "
    return f"Partial: {share}runs of the program ({', '.join(kept)}). {state.problem.problem().text}"


def _missing_counters(run: ProfileRun, state: RunState, merged: StoredProfile) -> list[str]:
    """Warn about missing counters: profilers skip unknown counters with no more than a line in their messages."""
    wanted = {**run.counters, **state.counters}
    asked = [counter for step in [*state.finished, *state.cut] for counter in wanted.get(step, [])]
    brought = {*merged.counters, *(f"{event}[*]" for p in merged.passes for event, _ in p.table.instances.values())}
    lost = [counter for counter in dict.fromkeys(asked) if counter not in brought]
    if not lost:
        return []
    damaged = any(warning.code == "damaged" for warning in merged.warnings)
    why = "some files that it wrote are damaged" if damaged else "its version may not know them on this device"
    return [f"counters: The profiler was asked for {first_few(lost, _LOST_NAMED)} but returned no values: {why}."]
