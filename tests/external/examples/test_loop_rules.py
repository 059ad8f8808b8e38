"""The rules of the scripted loop one by one; tests/oracle/examples walks whole ladders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.examples.loop import loop

pytestmark = pytest.mark.anyio


class Scripted:
    """A client whose server answers what the test prescribes, and that remembers what it was asked."""

    def __init__(self, **answers: list[dict[str, Any]]) -> None:
        self.answers, self.asked = answers, list[tuple[str, dict[str, Any]]]()

    async def call_tool(self, tool: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((tool, arguments))
        answer = self.answers[tool].pop(0)
        text = [SimpleNamespace(text=answer["error"])] if "error" in answer else []
        return SimpleNamespace(is_error="error" in answer, content=text, structured_content=answer)


def version(number: int, *helps: str) -> loop.PreparedVersion:
    return loop.PreparedVersion(f"kernel_{number}", helps, "idea", "change")


def ladder(*helps: str) -> loop.Ladder:
    """A first version and one for each subsystem."""
    return loop.Ladder("made", "a made ladder", (version(0), *(version(i, s) for i, s in enumerate(helps, 1))))


def found(subsystem: str, bound: float | None = 5.0) -> loop.LoopDiagnosis:
    return loop.LoopDiagnosis(subsystem, 0.8, bound)


def outcome(verdict: str = "improved", same: str = "yes", speedup: float = 2.0) -> loop.VersionOutcome:
    return loop.VersionOutcome(verdict, same, speedup, (2000.0, 2000.0 / speedup))


async def walked(
    monkeypatch: pytest.MonkeyPatch,
    steps: loop.Ladder,
    diagnoses: list[loop.LoopDiagnosis],
    outcomes: list[loop.VersionOutcome],
    rounds: int = loop.ROUNDS,
) -> list[loop.Round]:
    """The loop with its diagnoses and comparisons given, in order."""

    async def diagnosis(client: Any, workload: str) -> loop.LoopDiagnosis:
        return diagnoses.pop(0)

    async def comparison(*given: Any) -> loop.VersionOutcome:
        return outcomes.pop(0)

    async def measure(client: Any, tried: loop.PreparedVersion) -> str:
        return tried.kernel

    monkeypatch.setattr(loop, "diagnosis", diagnosis)
    monkeypatch.setattr(loop, "comparison", comparison)
    return await loop.optimise(Scripted(), steps, measure, rounds=rounds)  # type: ignore[arg-type]


async def test_it_takes_the_version_that_answers_the_diagnosis_and_stops_at_the_ceiling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = await walked(monkeypatch, ladder("hbm", "lds"), [found("lds"), found("hbm", 1.05)], [outcome()])
    assert [r.tried.kernel if r.tried else None for r in done] == ["kernel_2", None]
    assert done[-1].best.kernel == "kernel_2" and "ceiling of hbm" in done[-1].stop


@pytest.mark.parametrize(("same", "told"), [("no", "it does different work"), ("unknown", "counters are missing")])
async def test_a_faster_version_that_does_other_or_unknown_work_is_refused(
    monkeypatch: pytest.MonkeyPatch, same: str, told: str
) -> None:
    wrong, right = outcome(same=same, speedup=60.0), outcome(speedup=1.6)
    done = await walked(monkeypatch, ladder("hbm", "hbm"), [found("hbm")] * 3, [wrong, right])
    assert [r.best.kernel for r in done] == ["kernel_0", "kernel_0", "kernel_2"]
    assert told in loop.rounds_text(ladder("hbm", "hbm"), done)
    assert "1.6 times as fast as kernel_0" in loop.rounds_text(ladder("hbm", "hbm"), done)


@pytest.mark.parametrize(
    "slow", [outcome(speedup=1.02), outcome("inconclusive", speedup=1.5), outcome("regressed", speedup=0.5)]
)
async def test_two_rounds_without_a_gain_end_it(monkeypatch: pytest.MonkeyPatch, slow: loop.VersionOutcome) -> None:
    done = await walked(monkeypatch, ladder("hbm", "hbm", "hbm"), [found("hbm")] * 3, [slow, slow])
    assert len(done) == 3 and "less than 3%" in done[-1].stop
    mixed = await walked(monkeypatch, ladder("hbm", "hbm"), [found("hbm")] * 3, [slow, outcome()])
    assert "addresses hbm" in mixed[-1].stop


async def test_it_keeps_to_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    done = await walked(monkeypatch, ladder("hbm", "hbm", "hbm"), [found("hbm")] * 2, [outcome()], rounds=1)
    assert [bool(r.tried) for r in done] == [True, False] and "budget of 1" in done[-1].stop


async def test_a_diagnosis_that_no_version_answers_ends_it_without_a_try(monkeypatch: pytest.MonkeyPatch) -> None:
    (only,) = await walked(monkeypatch, ladder("hbm"), [found("unknown", None)], [])
    assert only.tried is None and "addresses unknown" in only.stop


async def test_live_it_waits_for_the_run_and_gives_its_workload() -> None:
    running, done = {"state": "running", "run_id": "r1"}, {"state": "done", "run_id": "r1", "workload": "w1"}
    client = Scripted(profile_command=[running], get_run=[running, done])
    assert await loop.live("/bin/kernels", repeat=4)(client, version(1)) == "w1"  # type: ignore[arg-type]
    (tool, arguments), *polls = client.asked
    assert tool == "profile_command" and arguments["kernel"] == "kernel_1"
    assert arguments["command"] == ["/bin/kernels", "kernel_1", "--repeat", "4", "--check"]
    assert [(name, given["run_id"]) for name, given in polls] == [("get_run", "r1")] * 2


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "There is no tool profile_command"},
        {"state": "failed", "run_id": "r1", "problem": "counters not permitted", "output": None},
    ],
)
async def test_live_a_refusal_or_a_failed_run_is_told(answer: dict[str, Any]) -> None:
    client = Scripted(profile_command=[answer])
    with pytest.raises(loop.CallRefused, match="profile_command|counters not permitted"):
        await loop.live("/bin/kernels")(client, version(1))  # type: ignore[arg-type]
