"""run_peak_benchmarks: what a device of this machine can really reach, measured once and then known."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from ..analysis import peaks
from ..analysis.database import connect
from ..analysis.problems import Problem
from ..analysis.store import Store
from . import peak_tables
from .detect.model import Roots
from .devices import survey
from .jobs import launch, lookup
from .jobs.job import CallStep
from .peak_targets import Target, choose, together
from .runs import LONGEST_WAIT_S, RunResult, shown

FRESH = timedelta(days=90)
_TIMEOUTS_S = {"quick": 300.0, "full": 900.0, "functional": 7200.0}
_ENOUGH = {"full": ("full",), "quick": ("full", "quick")}
"""Modes whose results answer for a mode."""


def run_peak_benchmarks(
    store: Store,
    device: Annotated[str | int | None, Field(description='index, uuid or "cpu"')] = None,
    ceilings: list[str] | None = None,
    mode: Literal["full", "quick", "functional"] = "full",
    again: bool = False,
    wait_s: Annotated[float, Field(ge=0)] = 45,
) -> RunResult:
    """Measure what a GPU (else the CPU) can reach: ceilings such as hbm, valu.f32, or all. Fresh stored results answer
    unless again; functional only checks kernels. compute_roofline uses them."""
    target, notes = choose(survey(Roots()), device, ceilings)
    rows = [] if again or mode == "functional" or not target.seen else fresh(store, target, mode)
    wanted = together(peak_tables.missing(rows, target.names), target.names)
    if rows and not wanted:
        return stored(rows, target, mode, notes)
    if 0 < len(wanted) < len(target.names):
        known = len(target.names) - len(wanted)
        notes.append(
            f"{known} further ceilings are known already and not measured again; the SQL table ceilings has all."
        )
    run_id, folder = launch.new_run(store)
    step = CallStep(
        name="benchmark",
        function="peak_run:measure",
        arguments={
            "run_id": run_id, "about": target.about, "device": target.called, "wanted": wanted, "mode": mode,
        },
    )  # fmt: skip
    try:
        launch.start(
            store,
            run_id,
            [step],
            kind="benchmark",
            name=f"ceilings of {target.about['device'] or target.about['gpu'] or target.called}",
            timeout_s=_TIMEOUTS_S[mode],
            devices=target.lock,
            about={"mode": mode, "gpu": target.about["gpu"], "device": target.about["device"]},
            notes=notes,
        )
    except Problem:
        launch.discard(store, run_id)
        raise
    lookup.wait(store, folder, min(wait_s, LONGEST_WAIT_S))
    return shown(store, *lookup.look(store, folder))


def fresh(store: Store, target: Target, mode: str) -> list[dict[str, Any]]:
    """What is stored of the target's ceilings and still holds: same device, partition, driver and kernels, not old.

    Of a ceiling measured in several modes, the fuller one counts.
    """
    with closing(connect()) as con:
        known = peaks.latest(con, store)
    since = (datetime.now(UTC) - FRESH).isoformat()
    same = ("device_uuid", "partition", "driver")
    holds = [
        row for row in known
        if all(row[name] == target.about[name] for name in same)
        and row["kernel_version"] == target.kernel_version
        and (target.about.get("compiler") in (None, row["compiler"]))
        and row["mode"] in _ENOUGH[mode] and row["measured_at"] > since and row["ceiling"] in target.names
    ]  # fmt: skip
    best: dict[str, str] = {}
    for row in sorted(holds, key=lambda r: _ENOUGH["quick"].index(r["mode"])):
        best.setdefault(row["ceiling"], row["mode"])
    chosen = [row for row in holds if row["mode"] == best[row["ceiling"]]]
    return sorted(chosen, key=lambda r: (target.names.index(r["ceiling"]), r["intensity"] or 0.0))


def stored(rows: list[dict[str, Any]], target: Target, mode: str, notes: list[str]) -> RunResult:
    """An answer without a run: the results of earlier ones."""
    newest = max(rows, key=lambda r: r["measured_at"])
    oldest = min(rows, key=lambda r: r["measured_at"])
    since = newest["measured_at"] if newest is oldest else f"{oldest['measured_at']} to {newest['measured_at']}"
    said = f"Stored results of {since} on {target.about['device'] or target.about['gpu']}; again=true measures anew."
    return RunResult(
        run_id=newest["run_id"],
        state="done",
        progress="answered from stored results",
        steps_done=1,
        steps=1,
        elapsed_s=0.0,
        ceilings=peak_tables.ceilings(rows),
        notes=[said, *notes, *peak_tables.notes(rows, mode)],
        next=peak_tables.next_calls(),
    )
