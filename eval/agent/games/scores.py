"""Scores of the games: correct answers, calls, tokens, rounds and speed-up, as plain data and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rooflens.eval.agent.games.asking import LEVELS, Answered
from rooflens.eval.agent.games.dialogue import Cost
from rooflens.eval.agent.games.kernels import Played


def of_questions(done: Sequence[Answered]) -> dict[str, Any]:
    """Totals of a question game, also by level, and the questions that were not answered correctly."""
    untold = [a for a in done if a.question.right.check == "untold"]
    return {
        "asked": len(done),
        "right": sum(a.right for a in done),
        "untold": {
            "asked": len(untold),
            "right": sum(a.right for a in untold),
            "made_up": sum(a.made_up for a in done),
        },
        "levels": {
            level: {"asked": len(part), "right": sum(a.right for a in part)}
            for level in LEVELS
            if (part := [a for a in done if a.question.level == level])
        },
        "difficulties": {
            str(difficulty): {"asked": len(part), "right": sum(a.right for a in part)}
            for difficulty in (1, 2, 3)
            if (part := [a for a in done if a.question.difficulty == difficulty])
        },
        **_costs([a.cost for a in done]),
        "answers": [
            {"ask": a.question.ask, "given": a.given, "right": a.right, "problem": a.problem, "calls": a.cost.calls}
            for a in done
        ],
    }


def of_kernels(done: Sequence[Played]) -> dict[str, Any]:
    """Totals of a kernel game; speed-ups are geometric means over the tasks with a correct version."""
    measured = [p for p in done if p.speedup is not None]
    against_best = [p.of_best for p in measured if p.of_best is not None]
    return {
        "played": len(done),
        "solved": len(measured),
        "rounds": sum(p.rounds for p in done),
        "speedup": _mean(p.speedup for p in measured if p.speedup is not None),
        "of_best_known": _mean(against_best),
        **_costs([p.cost for p in done]),
        "tasks": [
            {
                "task": p.task,
                "language": p.language,
                "speedup": p.speedup,
                "of_best_known": p.of_best,
                "slow_ns": p.slow_ns,
                "best_known_ns": p.best_known_ns,
                "best_ns": p.best_ns,
                "rounds": p.rounds,
                "right_rounds": p.right_rounds,
                "calls": p.cost.calls,
                "tokens": p.cost.tokens,
                "problem": p.problem,
            }
            for p in done
        ],
    }


def table(scores: dict[str, dict[str, Any]]) -> str:
    """Format the scores of one game as text, with a column per mode (with and without tools)."""
    first = next(iter(scores.values()))
    rows = _question_rows(scores) if "asked" in first else _kernel_rows(scores)
    header = ["", *scores]
    return "\n".join(_aligned([header, *rows]))


def misses(scores: dict[str, Any]) -> list[str]:
    """List the questions that were not answered correctly, one per line."""
    return [
        f"{one['ask']} said: {one['given']}" + (f" ({one['problem']})" if one["problem"] else "")
        for one in scores.get("answers", ())
        if not one["right"]
    ]


def _question_rows(scores: dict[str, dict[str, Any]]) -> list[list[str]]:
    first = next(iter(scores.values()))
    rows = [["right", *(f"{s['right']} of {s['asked']}" for s in scores.values())]]
    for level in first["levels"]:
        rows.append([f"  {level}", *(_of(s["levels"][level]) for s in scores.values())])
    for difficulty in first["difficulties"]:
        rows.append([f"  difficulty {difficulty}", *(_of(s["difficulties"][difficulty]) for s in scores.values())])
    rows.append(["untold, said so", *(_of(s["untold"]) for s in scores.values())])
    rows.append(["untold, made up", *(str(s["untold"]["made_up"]) for s in scores.values())])
    return rows + _cost_rows(scores)


def _kernel_rows(scores: dict[str, dict[str, Any]]) -> list[list[str]]:
    rows = [
        ["solved", *(f"{s['solved']} of {s['played']}" for s in scores.values())],
        ["speed-up against slow", *(_times(s["speedup"]) for s in scores.values())],
        ["speed-up against best known", *(_times(s["of_best_known"]) for s in scores.values())],
        ["rounds", *(str(s["rounds"]) for s in scores.values())],
    ]
    first = next(iter(scores.values()))
    for number, task in enumerate(first["tasks"]):
        rows.append([f"  {task['task']}", *(_outcome(s["tasks"][number]) for s in scores.values())])
    return rows + _cost_rows(scores)


def _outcome(task: dict[str, Any]) -> str:
    if task["speedup"] is None:
        return (task["problem"] or "no right version").splitlines()[0]
    of_best = f", {_times(task['of_best_known'])} of best" if task["of_best_known"] else ""
    return f"{_times(task['speedup'])}{of_best}, {task['rounds']} rounds"


def _cost_rows(scores: dict[str, dict[str, Any]]) -> list[list[str]]:
    return [
        ["calls", *(f"{s['calls']} ({s['failed_calls']} failed)" for s in scores.values())],
        ["tokens", *(f"{s['tokens']:,}{' (estimated)' if s['tokens_estimated'] else ''}" for s in scores.values())],
    ]


def _costs(costs: Sequence[Cost]) -> dict[str, Any]:
    return {
        "calls": sum(c.calls for c in costs),
        "failed_calls": sum(c.failed_calls for c in costs),
        "turns": sum(c.turns for c in costs),
        "tokens": sum(c.tokens for c in costs),
        "tokens_read": sum(c.tokens_read for c in costs),
        "tokens_written": sum(c.tokens_written for c in costs),
        "tokens_estimated": any(c.estimated for c in costs),
    }


def _mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _of(part: dict[str, Any]) -> str:
    return f"{part['right']} of {part['asked']}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"x {value:.2f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
