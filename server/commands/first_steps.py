"""What to do first: `rooflens` alone, which depends on what is in the store, and `rooflens demo`."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

import tomli

from ...analysis.base.text import count_text
from ...analysis.store.store import Store
from ..terminal.outcome import Outcome


def first_steps(store: Store) -> Outcome:
    """Three to five lines: commands that are useful now, each with its purpose (first_steps.toml)."""
    workloads, _ = store.scan()
    newest = workloads[-1] if workloads else None
    state = "empty" if newest is None else "timeline" if newest.events else "kernels"
    word = ""
    if newest:
        word = shlex.quote(newest.name if [m.name for m in workloads].count(newest.name) == 1 else newest.id)
    texts = tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    values = {"store": store.address, "count": count_text(len(workloads), "workload"), "newest": newest, "word": word}
    steps = {step.format(**values): purpose for step, purpose in (texts[state] | texts["always"]).items()}
    what = texts["title"]["stored" if newest else "empty"].format(**values)
    width = max(map(len, steps))
    facts = {"store": store.address, "workloads": len(workloads), "commands": list(steps)}
    return Outcome(facts, [what, *(f"  {step:{width}}  {purpose}" for step, purpose in steps.items())])


def run_demo(options: Namespace, store: Store) -> Outcome:
    """Run the demonstration; the text appears while it works."""
    from ..demo import demo

    facts: dict[str, Any] = {}
    kept = store if getattr(options, "store", None) else None
    return Outcome(facts, demo(kept, facts, benchmark=options.benchmark))
