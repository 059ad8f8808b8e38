"""The commands about this machine: `doctor` and `check`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from ...analysis.store.store import Store
from ..mcp.tool_calls import ask
from ..terminal.outcome import REFUSED, Outcome
from ..terminal.wording import problem


def examine_machine(options: Namespace, store: Store) -> Outcome:
    """Run every check, and write the files of --bundle and --draft."""
    from ...tools.device.machine.model import Roots
    from ..doctor.bundle import bundle, refuse_existing, write_new
    from ..doctor.examination import draft_target, examine

    for new in (options.bundle, options.draft):
        if new is not None:
            refuse_existing(Path(new))
    examination = examine(store, Roots())
    words = []
    for check in examination[1]:
        fix = f"\n          fix: {check.fix}" if check.fix and check.state != "ok" else ""
        words.append(f"{check.state:8}  {check.name}: {check.found}{fix}")
    facts: dict[str, Any] = {"checks": [check.model_dump() for check in examination[1]], "bundle": options.bundle}
    if options.bundle is not None:
        words += bundle(store, Path(options.bundle), examination[1])
    if options.draft is not None:
        target, text = draft_target(examination[0])
        write_new(Path(options.draft), text.encode())
        facts["draft"] = {"file": options.draft, "target": target}
        words.append(f"{options.draft}: the draft of gpus/{target}.toml; complete it by its comments")
    return Outcome(facts, words)


def write_check(options: Namespace, store: Store) -> Outcome:
    """Run the tool, write its full report, and list the metrics that are not correct."""
    from ...tools.get_run import RunResult
    from ..doctor.bundle import refuse_existing

    target = Path(options.output)
    refuse_existing(target)
    if target.suffix not in (".md", ".json"):
        raise problem("unknown_extension", name=target.name)
    answer = ask(store, "check_counters", {"device": options.device} if options.device else {})
    assert isinstance(answer, RunResult)
    words = [*answer.notes, *answer.warnings]
    facts: dict[str, Any] = {"file": None, "off": [], "notes": list(words), "problem": answer.problem}
    if answer.problem or not answer.result.get("report"):
        said = [f"It printed: {answer.output}"] if answer.output else []
        return Outcome(facts, [*words, *said], REFUSED, answer.problem or answer.progress)
    written = Path(answer.result["report"]).with_suffix(target.suffix)
    target.write_bytes(written.read_bytes())
    table = answer.brief({}).check
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows] if table else []
    off = [row for row in rows if row["verdict"] == "off"]
    words += [
        f"off  {row['metric']}: {row['measured']:.6g} for {row['expected']:.6g} {row['unit']} in {row['kernel']}; "
        f"{row['cause']}"
        for row in off
    ]
    return Outcome({**facts, "file": str(target), "off": off}, [*words, f"{target}: the full report"])
