"""`rooflens gate`: decide for a CI whether a candidate is slower than its baseline."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TextIO

from ...analysis.base.problems import near
from ...analysis.base.temporary_files import draft_of
from ...analysis.comparison.gate_limits import limits
from ...analysis.store.store import Manifest, Store
from ..terminal.outcome import INCONCLUSIVE, OK, REGRESSED, Misuse, Outcome
from ..terminal.wording import problem

_TAG = "tag:"
_STATUS = {"pass": OK, "fail": REGRESSED, "inconclusive": INCONCLUSIVE}
_MOST_RUNS = 50
_JOB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable of GitHub Actions with the file that the page of a job shows; all commands of a step append to it."""
_UNDECIDED = "Nothing was decided: --inconclusive {0} turns this result into a {0}."


def execute(options: Namespace, store: Store) -> Outcome:
    """Judge, write the files, and print the result."""
    if not 1 <= options.runs <= _MOST_RUNS:
        raise Misuse(f"--runs {options.runs} is not a valid number of runs", f"Give 1 to {_MOST_RUNS}")
    allowed = limits(
        Path(options.limits) if options.limits else None,
        max_regression=options.max_regression,
        total=options.total,
        min_share=options.min_share,
        metrics=options.metric,
    )
    after = _select_workloads(store, options.candidate, options.runs, frozenset())
    before = _select_workloads(store, options.baseline, options.runs, {m.id for m in after})
    from ...analysis.comparison.gate import gate
    from ...analysis.workload import Workload
    from ..gate import gate_text

    with ExitStack() as opened:
        sides = [
            [opened.enter_context(Workload.open(store, m, by=options.by)) for m in side] for side in (before, after)
        ]
        judgement = gate(sides[0], sides[1], allowed)
    title = f"rooflens gate: {before[0].name} -> {after[0].name}"
    decided = (judgement.verdict == "inconclusive" and options.inconclusive) or judgement.verdict
    remark = _UNDECIDED.format(decided) if decided != judgement.verdict else ""
    if options.markdown:
        summary = gate_text.markdown(judgement, title)
        _write(Path(options.markdown), f"{summary}\n**{remark}**\n" if remark else summary)
    facts = {
        "baseline": [m.id for m in before],
        "candidate": [m.id for m in after],
        **gate_text.facts(judgement),
        "decided_as": decided,
        "markdown": options.markdown,
        "exit_status": _STATUS[decided],
    }
    return Outcome(facts, filter(None, [*gate_text.lines(judgement), remark]), _STATUS[decided])


def _select_workloads(store: Store, word: str, runs: int, others: Collection[str]) -> list[Manifest]:
    """The selected workloads, newest first; a tag or name never selects ``others``, which are the candidates.

    If several programs or GPUs have a tag, only those with the name, target and device count of the newest are used.
    """
    known, name = store.scan()[0], word.removeprefix(_TAG)
    if word.startswith(_TAG):
        fitting = [m for m in known if name in m.tags]
    else:
        meant = store.resolve(word)
        if meant.name != word or (runs == 1 and meant.id not in others):
            return [meant]
        fitting = [m for m in known if m.name == word]
    left = [m for m in reversed(fitting) if m.id not in others]
    newest = [m for m in left if (m.name, m.arch, m.device) == (left[0].name, left[0].arch, left[0].device)][:runs]
    if not newest:
        code = "no_workload_with_tag" if word.startswith(_TAG) else "no_workload"
        hint = near(name, sorted({tag for m in known for tag in m.tags}))
        raise problem(code, name=name, other=" other" if fitting else "", hint=hint)
    return newest


def _write(target: Path, text: str) -> None:
    """Write a file in one step, following links and keeping its mode; a device or pipe is written directly.

    Files that others write too are appended to: our own standard output, even if redirected, and the summary of a job.
    """
    try:
        if (stream := _own(target)) is not None:
            stream.write(text)
            stream.flush()
            return
        if target.exists() and (os.environ.get(_JOB_SUMMARY) == str(target) or not target.is_file()):
            with target.open("a", encoding="utf-8") as opened:
                opened.write(text)
            return
        file = target.resolve()
        with draft_of(file) as draft:
            draft.write_text(text, encoding="utf-8")
            if file.exists():
                shutil.copymode(file, draft)
    except OSError as error:
        raise problem("unwritten_file", file=target, why=error.strerror or error) from error


def _own(target: Path) -> TextIO | None:
    """The output stream of this process that ``target`` refers to, as /dev/stdout or as a file it is redirected to."""
    if not target.exists():
        return None
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the stream is closed, or has no file descriptor
            if os.path.samestat(target.stat(), os.fstat(stream.fileno())):
                return stream
    return None
