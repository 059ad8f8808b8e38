"""What to do first: `rooflens` alone, which depends on what is in the store, and `rooflens demo`."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import Any

from ...analysis.base.text import count_text
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome


def first_steps(store: Store) -> Outcome:
    """Three to five lines: commands that are useful now, each with its purpose."""
    workloads, _ = store.scan()
    if workloads:
        newest = workloads[-1]
        what = f"{count_text(len(workloads), 'workload')} in {store.address}, the newest is {newest.name}:"
        named = [one for one in workloads if one.name == newest.name]
        word = shlex.quote(newest.name if len(named) == 1 else newest.id)
        question, about = (
            ("timeline", "says where its wall time goes")
            if newest.events
            else ("diagnose", "says what limits its kernels")
        )
        steps = {
            "rooflens ls": "lists the workloads",
            f"rooflens {question} {word}": about,
            f"rooflens report {word}": "writes a page for the browser",
        }
    else:
        what = f"The store {store.address} is empty:"
        steps = {
            "rooflens demo": "shows what rooflens does, on shipped samples; needs no GPU",
            "rooflens import PATH": "reads a profile: of rocprof-compute, rocprofv3, ncu, nsys, PyTorch, perf",
            "rooflens connect": "lets an AI assistant use it",
        }
    steps["rooflens --help"] = "lists all commands"
    width = max(map(len, steps))
    facts = {"store": store.address, "workloads": len(workloads), "commands": list(steps)}
    return Outcome(facts, [what, *(f"  {step:{width}}  {purpose}" for step, purpose in steps.items())])


def run_demo(options: Namespace, store: Store) -> Outcome:
    """Run the demonstration; the text appears while it works."""
    from ..demo import demo

    facts: dict[str, Any] = {}
    kept = store if getattr(options, "store", None) else None
    return Outcome(facts, demo(kept, facts, benchmark=options.benchmark))
