"""`rooflens plan --write DIR`: a plan as scripts that run on a machine without rooflens."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import BadArgument, Problem, StoreProblem
from ....analysis.base.text import count_text
from ....analysis.store.store import Store
from ...terminal.outcome import Outcome
from .answers import command_line

if TYPE_CHECKING:
    from ....tools.plan_profile import PlanResult

_SCRIPT, _README = "profile.sh", "profile-README.md"
_FULL: dict[str, Any] = {"detail": "full"}


def declare_options(parser: ArgumentParser) -> None:
    """Add --write and --force."""
    parser.add_argument("--write", metavar="DIR", help="write profile.sh for bash and sbatch, and its input files")
    parser.add_argument("--force", action="store_true", help="let --write replace existing files")


def write_scripts(store: Store, arguments: dict[str, Any], options: Namespace) -> Outcome:
    """Write the files of a plan, and print what to do with them.

    Raises what plan_profile raises, BadArgument if a file exists, and StoreProblem if one cannot be written.
    """
    from ....tools.plan_profile import PlanResult
    from ...mcp.toolbox import answer

    plan = answer(store, "plan_profile", arguments | _FULL)
    if isinstance(plan, Problem):
        raise plan
    assert isinstance(plan, PlanResult)
    folder = Path(options.write).expanduser()
    files = {str(name): str(text) for name, _, text in plan.files.rows}
    files |= {_SCRIPT: _script(plan), _README: _readme(plan)}
    _write(folder, files, force=options.force)
    runs = count_text(plan.application_runs, "run")
    return Outcome(
        {
            "folder": str(folder),
            "files": sorted(files),
            "application_runs": plan.application_runs,
            "import": _imports(plan),
            "notes": plan.notes,
        },
        [
            f"{folder / _SCRIPT}: {runs} of the program under {plan.profiler} for {plan.gpu}",
            *(f"{folder / name}" for name in sorted(files) if name != _SCRIPT),
            "",
            _instructions(plan),
            *(f"- {note}" for note in plan.notes),
        ],
    )


def _imports(plan: PlanResult) -> list[str]:
    return [command_line(call) for call in plan.next if call.tool == "import_profile"]


def _instructions(plan: PlanResult) -> str:
    """One line: what to run where, and how to import the result."""
    return (
        f"Copy the files to the folder of the program, run `sbatch {_SCRIPT}` or `bash {_SCRIPT}` there, copy "
        f"rooflens_run back, and import it: {' and '.join(f'`{one}`' for one in _imports(plan))}."
    )


def _readme(plan: PlanResult) -> str:
    lines = [f"# {plan.profiler} for {plan.gpu}", "", _instructions(plan)]
    if plan.launchers:
        lines += ["", f"With many ranks, start every command of {_SCRIPT} by your launcher, as here the last one:", ""]
        lines += [f"    {line}" for line in dict.fromkeys(plan.launchers.values())]
    return "\n".join([*lines, "", *(f"- {note}" for note in plan.notes), ""])


def _script(plan: PlanResult) -> str:
    """The script; sbatch reads the lines that begin with #SBATCH, bash ignores them."""
    steps = []
    for number, command in enumerate(plan.commands, 1):
        steps += [f"echo '{number} of {len(plan.commands)}: {command.step}'", command.shell or "", ""]
    present = [
        _stop_unless(f"[ -f {shlex.quote(str(name))} ]", f"{name} is missing: copy all files that rooflens wrote")
        for name, _, _ in plan.files.rows[:1]
    ]
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=rooflens",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        *(["#SBATCH --gpus=1"] if plan.gpu != "cpu" else []),
        "#SBATCH --time=01:00:00",
        "#SBATCH --output=rooflens-%j.log",
        f"# {count_text(plan.application_runs, 'run')} of the program for {plan.gpu}.",
        "# Start this script in the folder of the program, with the other files beside it.",
        "set -euo pipefail",
        "",
        _stop_unless(f"command -v {plan.profiler} > /dev/null", f"{plan.profiler} is not in PATH: load its module"),
        *present,
        plan.prepare,
        "",
        *steps,
        "echo 'done: copy rooflens_run back'",
        "",
    ]
    return "\n".join(lines)


def _stop_unless(condition: str, message: str) -> str:
    return f"{condition} || {{ echo {shlex.quote(message)} >&2; exit 1; }}"


def _write(folder: Path, files: dict[str, str], *, force: bool) -> None:
    """Write the files below a folder, none of them if one exists and ``force`` is not given."""
    existing = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
    if existing and not force:
        raise BadArgument(f"{folder / existing[0]} exists", fix="Choose another folder, or replace files with --force")
    try:
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_text(text, encoding="utf-8")
        (folder / _SCRIPT).chmod(0o755)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreProblem(f"{folder} cannot be written", why, "Choose a folder in which you may write") from error
