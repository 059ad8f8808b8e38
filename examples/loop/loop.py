"""The optimisation loop without a model: diagnose, choose the matching prepared version, measure, compare, stop."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli

import rooflens

if TYPE_CHECKING:
    from mcp.client import Client


LADDERS = Path(__file__).parent / "loop.toml"
ROUNDS = 8
AT_CEILING = 1.1
"""With a smaller bound of the speed-up, a kernel is at its ceiling: only less work would make it faster."""
LEAST_GAIN, PATIENCE = 1.03, 2
"""The loop ends after this many consecutive rounds with a smaller gain."""
_WORK = {
    "no": "it does different work, so the times cannot be compared",
    "probably_not": "it probably does different work, so the times cannot be compared",
    "unknown": "it is unknown whether it does the same work, because counters are missing",
}


@dataclass(frozen=True)
class PreparedVersion:
    """A prepared version of the kernel, and the diagnoses that it addresses."""

    kernel: str
    helps: tuple[str, ...] = ()
    idea: str = ""
    change: str = ""


@dataclass(frozen=True)
class Ladder:
    """The versions of one kernel, beginning with the original."""

    name: str
    title: str
    versions: tuple[PreparedVersion, ...]


@dataclass(frozen=True)
class LoopDiagnosis:
    """What limits the best version so far, with the confidence and the upper bound of the speed-up."""

    subsystem: str
    confidence: float
    speedup_bound: float | None


@dataclass(frozen=True)
class VersionOutcome:
    """The comparison of a new version with the best one so far; ``speedup`` is old time / new time."""

    verdict: str
    same_work: str
    speedup: float | None
    times_ns: tuple[float | None, float | None]

    @property
    def better(self) -> bool:
        """Whether it is faster by more than the noise, and does the same work according to the counters."""
        return self.verdict == "improved" and self.same_work in ("yes", "probably")

    @property
    def gains(self) -> bool:
        """Whether it is enough of an improvement to continue."""
        return self.better and (self.speedup or 0.0) >= LEAST_GAIN


@dataclass(frozen=True)
class Round:
    """One round: the diagnosis of the best version so far, the version that was tried, and the result."""

    best: PreparedVersion
    found: LoopDiagnosis
    tried: PreparedVersion | None = None
    outcome: VersionOutcome | None = None
    stop: str = ""
    """Why the loop ends here; nothing is tried in this round."""


Measure = Callable[["Client", PreparedVersion], Awaitable[str]]
"""Stores the profile of a version and returns the id of its workload."""


class CallRefused(Exception):
    """A tool rejected a call, or a run failed; the text states why and what to do."""


def ladders(path: Path = LADDERS) -> dict[str, Ladder]:
    """The prepared optimisation loops by name."""
    by_name = {}
    for stated in tomli.loads(path.read_text(encoding="utf-8"))["ladder"]:
        versions = tuple(PreparedVersion(**{**v, "helps": tuple(v.get("helps", ()))}) for v in stated["version"])
        by_name[stated["name"]] = Ladder(stated["name"], stated["title"], versions)
    return by_name


async def optimise(client: Client, ladder: Ladder, measure: Measure, *, rounds: int = ROUNDS) -> list[Round]:
    """Run the loop with the tools of a connected server; the last round states why it stopped. Raises CallRefused."""
    best, untried = ladder.versions[0], list(ladder.versions[1:])
    baseline = await measure(client, best)
    history: list[Round] = []
    while True:
        current = await diagnosis(client, baseline)
        tried = next((version for version in untried if current.subsystem in version.helps), None)
        stop = _stop(history, current, tried, rounds)
        if stop or tried is None:
            return [*history, Round(best, current, stop=stop)]
        untried.remove(tried)
        candidate = await measure(client, tried)
        outcome = await comparison(client, ladder.name, (best, baseline), (tried, candidate))
        history.append(Round(best, current, tried, outcome))
        if outcome.better:
            best, baseline = tried, candidate


def _stop(history: Sequence[Round], current: LoopDiagnosis, tried: PreparedVersion | None, rounds: int) -> str:
    """Why the loop ends; empty if it continues."""
    bound = current.speedup_bound
    if bound is not None and bound < AT_CEILING:
        return f"it is at the ceiling of {current.subsystem}: at most {bound:.2f} times as fast with the same work"
    if len(history) >= rounds:
        return f"the budget of {rounds} rounds is used up"
    if len(history) >= PATIENCE and not any(r.outcome and r.outcome.gains for r in history[-PATIENCE:]):
        return f"{PATIENCE} rounds in a row gained less than {LEAST_GAIN - 1:.0%}"
    return f"none of the remaining prepared versions addresses {current.subsystem}" if tried is None else ""


async def diagnosis(client: Client, workload: str) -> LoopDiagnosis:
    """The verdict for the longest kernel of a workload."""
    answer = await call(client, "diagnose_bottleneck", workload=workload, kernel="#1")
    verdict = answer["kernels"][0]["verdict"]
    return LoopDiagnosis(verdict["subsystem"], verdict["confidence"], verdict["speedup_bound"])


async def comparison(
    client: Client, label: str, old: tuple[PreparedVersion, str], new: tuple[PreparedVersion, str]
) -> VersionOutcome:
    """Compare two versions by their workloads. Their names differ, so they are compared as a group."""
    answer = await call(
        client, "compare_workloads", baseline=old[1], candidate=new[1], group={label: [old[0].kernel, new[0].kernel]},
        hypothesis=new[0].idea, change=new[0].change,
    )  # fmt: skip
    kernels = answer["kernels"]
    row = dict(zip(kernels["columns"], kernels["rows"][0], strict=True))
    before, after = (None if row[side] is None else 1e6 * row[side] for side in ("baseline_ms", "candidate_ms"))
    return VersionOutcome(row["verdict"], row["same_work"], row["speedup"], (before, after))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool. Raises CallRefused with the tool's advice."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise CallRefused("".join(getattr(block, "text", "") for block in result.content))
    return result.structured_content or {}


def rounds_text(ladder: Ladder, history: Sequence[Round]) -> str:
    """The rounds as text."""
    lines = [f"{ladder.title}, starting with {ladder.versions[0].kernel}"]
    for number, done in enumerate(history, 1):
        bound = done.found.speedup_bound
        most = "" if bound is None else f", at most {bound:.1f} times as fast without it"
        lines.append(
            f"{number}. {done.best.kernel} is limited by {done.found.subsystem} "
            f"(confidence {done.found.confidence:.2f}{most})"
        )
        if done.tried and done.outcome:
            lines += [f"   idea: {done.tried.idea}", f"   try {done.tried.kernel}: {done.tried.change}"]
            lines.append(f"   {_result(done.outcome)}")
        else:
            lines.append(f"   stop: {done.stop}")
    kept = [done.outcome.speedup for done in history if done.outcome and done.outcome.better]
    total = 1.0
    for speedup in kept:
        total *= speedup or 1.0
    return "\n".join([*lines, f"{history[-1].best.kernel} is {total:.1f} times as fast as {ladder.versions[0].kernel}"])


def _result(outcome: VersionOutcome) -> str:
    before, after = (f"{t / 1e3:,.0f} us" if t else "-" for t in outcome.times_ns)
    times = f"{before} -> {after}" + (f", {outcome.speedup:.2f} times as fast" if outcome.speedup else "")
    if outcome.better:
        return f"kept: {times}, same work"
    why = _WORK.get(outcome.same_work, f"the verdict is {outcome.verdict}")
    return f"refused: {times}, but {why}"


RECORDING = rooflens.samples()["h200_kernels"] / "kernels.csv.gz"
METRICS = ("diagnosis", "roofline")
"""The metrics to collect live: all that a diagnosis may need, because the next round would request them."""
_WAIT_S = 45
_UNFINISHED = ("queued", "running")


def live(program: str, *, repeat: int = 9) -> Measure:
    """Measures with profile_command; ``program`` (of examples/kernels) launches a kernel 1 + ``repeat`` times."""
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
    """Imports the recorded profile of each version; the profiler's files are written to ``folder``."""
    return partial(_import_version, folder, recording)


async def _import_version(folder: Path, recording: Path, client: Client, version: PreparedVersion) -> str:
    path = folder / f"{version.kernel}.csv"
    path.write_text(rows_of(recording, version.kernel), encoding="utf-8")
    answer = await call(client, "import_profile", path=str(path), name=version.kernel, tags=["sample"])
    return str(answer["workload"])


def rows_of(recording: Path, kernel: str) -> str:
    """The launches of one kernel in a raw page of ncu, below its two lines of names and units.

    Raises CallRefused if there are none.
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
