"""The commands that work with files: `import` reads profiles, `plan --write` writes scripts."""

from __future__ import annotations

import glob
import shlex
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....analysis.base.problems import BadInput, Problem
from ....analysis.base.text import count_text, inert
from ....analysis.store.store import Store
from ....tools.answers.sentences import sentence
from ....tools.base.results import Result
from ...mcp.tool_calls import ask
from ...terminal import log
from ...terminal.outcome import OK, REFUSED, Outcome, complain, error_facts, print_json, print_line
from ...terminal.wording import problem
from . import Verb
from .answers import Form, answer_text, print_rows
from .arguments import misuse, validate
from .command_names import command_line, problem_with_commands, word_list

_DEPTH = 3
"""How many levels of folders below a path are searched for profiles."""
_SELF_CONTAINED = (
    ".db", ".json", ".json.gz", ".ncu-rep", ".ncu-rep.gz", ".sqlite", ".pftrace", ".proto", ".record",
)  # fmt: skip
"""Endings of files that are a whole profile. A CSV file is more often one of several parts of one."""
_COLUMNS = ("path", "workload", "name", "format", "arch", "kernels", "dispatches", "counters", "warnings", "problem")


@dataclass(frozen=True)
class ImportedPath:
    """What became of one path: the answer of import_profile, or the problem."""

    path: str
    answer: Result | Problem

    @property
    def row(self) -> list[Any]:
        """The cells of ``_COLUMNS``; the warnings are counted."""
        if isinstance(self.answer, Problem):
            facts: dict[str, Any] = {"problem": self.answer.text}
        else:
            facts = self.facts | {"warnings": self._warnings}
        return [(facts | {"path": self.path}).get(name) for name in _COLUMNS]

    @property
    def _warnings(self) -> int:
        return len(getattr(self.answer, "warnings", ()))

    @property
    def facts(self) -> dict[str, Any]:
        """The answer or the problem as data, with the path."""
        from ....tools.rendering import render

        facts = render.structured_content(self.answer) if isinstance(self.answer, Result) else error_facts(self.answer)
        return {"path": inert(self.path), **facts}

    @property
    def line(self) -> str:
        """One line for people, and a second one with the problem."""
        if isinstance(self.answer, Problem):
            return f"failed    {self.path}\n          {problem_with_commands(self.answer).text}"
        warned = f" {count_text(self._warnings, 'warning')}." if self._warnings else ""
        return f"imported  {self.path}: {self.answer.answer}{warned}"


def import_all(store: Store, verb: Verb, arguments: dict[str, Any], form: Form) -> int:
    """Import every path, print what became of each, and return the exit status: refused if one of them failed."""
    from ....tools.isolation.limits import keep_freed_memory
    from ...mcp.toolbox import tool_named

    keep_freed_memory()
    options = {name: value for name, value in arguments.items() if name != "path"}
    paths = _expand_patterns(word_list(arguments.get("path", [])))
    if not paths:
        raise misuse(verb, "PATH is missing")
    validate(tool_named(verb.tool), verb, {**options, "path": paths[0]})
    several = len(paths) > 1
    work = (
        one for path in paths for one in _import_path(store, path, _named_after(path, options) if several else options)
    )
    results = _print_while_working(work, form, several=several)
    return REFUSED if any(isinstance(one.answer, Problem) for one in results) else OK


def _expand_patterns(paths: Sequence[str]) -> list[str]:
    """The paths, with the matches of patterns that no shell has expanded."""
    expanded = []
    for path in paths:
        known = str(Path(path).expanduser())
        # Unlike Path.glob, this takes a whole path with patterns in any of its parts.
        expanded += [path] if Path(known).exists() else sorted(glob.glob(known)) or [path]  # noqa: PTH207
    return expanded


def _named_after(path: str | Path, options: dict[str, Any]) -> dict[str, Any]:
    """The options for one of several paths, which do not get the same name."""
    return {**options, "name": f"{options['name']}/{Path(path).name}"} if "name" in options else options


def _import_path(store: Store, path: str, options: dict[str, Any], depth: int = _DEPTH) -> Iterator[ImportedPath]:
    """Import a path as one profile, or else every profile below it."""
    from ...mcp.toolbox import answer, outcome

    began = time.monotonic()
    reply = answer(store, "import_profile", {**options, "path": path})
    whole = ImportedPath(path, reply)
    log.log_call("import_profile", time.monotonic() - began, outcome(reply), len(whole.line))
    below = _profiles_below(Path(path).expanduser(), depth) if isinstance(reply, BadInput) else []
    if not below:
        yield whole
    for one in below:
        yield from _import_path(store, str(one), _named_after(one, options), depth - 1)


def _profiles_below(folder: Path, depth: int) -> list[Path]:
    """What looks like a profile in a folder that is none itself, or else in its sub-folders."""
    if not folder.is_dir() or not depth:
        return []
    try:
        entries = [entry for entry in sorted(folder.iterdir()) if entry.name[0] != "." and not entry.is_symlink()]
    except OSError:
        return []
    profiles: list[Path] = []
    for entry in entries:
        if (entry.is_dir() or entry.name.endswith(_SELF_CONTAINED)) and _is_recognised(entry):
            profiles.append(entry)
        else:
            profiles += _profiles_below(entry, depth - 1)
    return profiles


def _is_recognised(path: Path) -> bool:
    from ....tools.profiles.registry import reader_for

    try:
        reader_for(path, "auto")
    except (Problem, OSError):
        return False
    return True


def _print_while_working(work: Iterator[ImportedPath], form: Form, *, several: bool) -> list[ImportedPath]:
    """Print a line for each path as soon as it is done, or the whole answer if there is only one."""
    results: list[ImportedPath] = []
    waiting: list[ImportedPath] = []
    for one in work:
        results.append(one)
        waiting.append(one)
        several = several or len(results) > 1
        if several and form.name == "text":
            for result in waiting:
                print_line(result.line)
            waiting.clear()
    failed = [one for one in results if isinstance(one.answer, Problem)]
    if form.name == "csv":
        for one in failed:
            complain(one.line)
        print_rows(_COLUMNS, (one.row for one in results))
    elif form.name == "json":
        imported = [one.facts for one in results if one not in failed]
        print_json({"imported": imported, "failed": [one.facts for one in failed]})
    elif several:
        print_line(f"{len(results) - len(failed)} of {count_text(len(results), 'profile')} imported")
    elif isinstance(results[0].answer, Problem):
        raise results[0].answer
    else:
        from ....tools.rendering.document import Document

        print_line(answer_text(Document(results[0].answer), form))
    return results


if TYPE_CHECKING:
    from ....tools.plan_profile import PlanResult

_SCRIPT, _README = "profile.sh", "profile-README.md"
_FULL: dict[str, Any] = {"detail": "full"}


def write_scripts(store: Store, arguments: dict[str, Any], options: Namespace) -> Outcome:
    """Write the files of a plan, and print what to do with them.

    Raises what plan_profile raises, BadArgument if a file exists, and StoreProblem if one cannot be written.
    """
    from ....tools.plan_profile import PlanResult

    plan = ask(store, "plan_profile", arguments | _FULL)
    assert isinstance(plan, PlanResult)
    folder = Path(options.write).expanduser()
    imports = [command_line(call) for call in plan.next if call.tool == "import_profile"]
    quoted = " and ".join(f"`{one}`" for one in imports)
    words = [sentence("script.instructions", script=_SCRIPT, imports=quoted), *(f"- {note}" for note in plan.notes)]
    files = {str(name): str(text) for name, _, text in plan.files.rows}
    files |= {_SCRIPT: _script(plan), _README: _readme(plan, *words)}
    _write(folder, files, force=options.force)
    runs = count_text(plan.application_runs, "run")
    facts = {
        "folder": str(folder),
        "files": sorted(files),
        "application_runs": plan.application_runs,
        "import": imports,
        "notes": plan.notes,
    }
    others = [str(folder / name) for name in sorted(files) if name != _SCRIPT]
    script = f"{folder / _SCRIPT}: {runs} of the program under {plan.profiler} for {plan.gpu}"
    return Outcome(facts, [script, *others, "", *words])


def _readme(plan: PlanResult, instructions: str, *notes: str) -> str:
    lines = [f"# {plan.profiler} for {plan.gpu}", "", instructions]
    if plan.launchers:
        lines += ["", f"With many ranks, start every command of {_SCRIPT} by your launcher, as here the last one:", ""]
        lines += [f"    {line}" for line in dict.fromkeys(plan.launchers.values())]
    return "\n".join([*lines, "", *notes, ""])


def _script(plan: PlanResult) -> str:
    """The script; sbatch reads the lines that begin with #SBATCH, bash ignores them."""
    steps = [
        sentence("script.step", number=number, of=len(plan.commands), step=command.step, shell=command.shell or "")
        for number, command in enumerate(plan.commands, 1)
    ]
    files = [sentence("script.file", name=shlex.quote(str(name))) for name, _, _ in plan.files.rows[:1]]
    return sentence(
        "script.text",
        gpus="#SBATCH --gpus=1\n" if plan.gpu != "cpu" else "",
        runs=plan.application_runs,
        gpu=plan.gpu,
        profiler=plan.profiler,
        needed="".join([*files, plan.prepare]),
        steps="\n".join(steps),
    )


def _write(folder: Path, files: dict[str, str], *, force: bool) -> None:
    """Write the files below a folder, none of them if one exists and ``force`` is not given."""
    existing = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
    if existing and not force:
        raise problem("script_exists", file=folder / existing[0])
    try:
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_text(text, encoding="utf-8")
        (folder / _SCRIPT).chmod(0o755)
    except OSError as error:
        raise problem("unwritten_scripts", folder=folder, why=error.strerror or error) from error
