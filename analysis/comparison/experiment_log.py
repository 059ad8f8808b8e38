"""The experiment log: what was changed, why, and with what result, as small files that are never modified."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pydantic

from ..base.notes import Reason
from ..base.problems import StoreProblem
from ..store.manifest import Binary, read_small
from ..store.store import Store, new_id, write_atomically
from .claims import ResultClaim
from .compare import ComparedPair, Comparison
from .matching import base_name

_FOLDER = "note"
_MOST_BYTES = 4 << 20
"""The maximum size of an entry in bytes; usual entries have a few kilobytes."""
_ID = re.compile(r"[0-9a-z]{16}")


class ExperimentOutcome(pydantic.BaseModel):
    """The result of a comparison for one kernel (or group): speed-up, with its 95 % interval if there is one."""

    kernel: str
    kernels: list[str] = []
    """All its kernels in both versions, including those of a group and renamed ones."""
    verdict: str
    why: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    same_work: str = "unknown"


class ExperimentEntry(pydantic.BaseModel):
    """One entry of the log: a profile of an experiment, or a comparison that judged it."""

    model_config = pydantic.ConfigDict(extra="ignore")

    id: str = ""
    created_ns: int = pydantic.Field(default=0, ge=0, lt=2**63)
    kind: Literal["profile", "comparison"]
    workload: str
    baseline: str | None = None
    hypothesis: str = ""
    change: str = ""
    binary: Binary | None = None
    """The file that was profiled for it."""
    outcomes: list[ExperimentOutcome] = []


def record_comparison(
    store: Store, comparison: Comparison, against: Sequence[ResultClaim], about: ExperimentEntry
) -> ExperimentEntry:
    """Record the results of a comparison, with the hypothesis and the change of ``about``, and return the entry.

    ``against`` are the claims that the profile contradicts; the verdict of the main pair is withheld then.
    """
    why, after = "; ".join(claim.why for claim in against), comparison.after
    outcomes = [_outcome(p, comparison.other_gpu, why if p is comparison.main else "") for p in comparison.pairs]
    compared = {"workload": after.id, "baseline": comparison.before.id, "outcomes": outcomes}
    binary = {"binary": about.binary or after.workload.manifest.binary}
    return record(store, about.model_copy(update=compared | binary))


def _outcome(compared: ComparedPair, other_gpu: Reason | None, contradiction: str) -> ExperimentOutcome:
    """The result for one pair of kernels; without a speed-up if the GPUs differ (``other_gpu``)."""
    withheld = contradiction and compared.verdict != "inconclusive"
    effect = compared.effect if other_gpu is None else None
    return ExperimentOutcome(
        kernel=compared.pair.label,
        kernels=list(dict.fromkeys((*compared.pair.before, *compared.pair.after))),
        verdict="inconclusive" if withheld else compared.verdict,
        why=contradiction if withheld else compared.why,
        **{name: getattr(effect, name, None) for name in ("speedup", "low", "high")},
        same_work=compared.work.answer,
    )


class EarlierExperiment(NamedTuple):
    """An earlier experiment and its result for one kernel."""

    entry: ExperimentEntry
    outcome: ExperimentOutcome


def record(store: Store, entry: ExperimentEntry) -> ExperimentEntry:
    """Add an entry and return it with its id and time. Raises StoreProblem if it cannot be written."""
    store.verify()
    now = time.time_ns()
    done = entry.model_copy(update={"id": new_id(now), "created_ns": now})
    folder = store.root / _FOLDER
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"{done.id}.json", done.model_dump_json(indent=1))
    except OSError as error:
        raise StoreProblem(
            f"The experiment cannot be recorded in {folder}",
            error.strerror or str(error),
            "Check the space and the permissions of the store",
        ) from error
    return done


def entries(store: Store) -> list[ExperimentEntry]:
    """All entries, oldest first; other files are ignored."""
    store.verify()
    log = []
    for path in sorted((store.root / _FOLDER).glob("*.json")):
        if not _ID.fullmatch(path.stem):
            continue
        try:
            log.append(ExperimentEntry.model_validate_json(read_small(path, _MOST_BYTES)))
        except (OSError, pydantic.ValidationError):
            continue
    return sorted(log, key=lambda e: (e.created_ns, e.id))


def earlier_experiments(log: Sequence[ExperimentEntry], kernel: str) -> list[EarlierExperiment]:
    """The experiments with a kernel of this name, newest first, with any parameters and template arguments."""
    name = base_name(kernel)
    return [
        EarlierExperiment(entry, outcome)
        for entry in reversed(log)
        for outcome in entry.outcomes
        if name in {base_name(k) for k in (outcome.kernel, *outcome.kernels)}
    ]
