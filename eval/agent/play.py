"""Plays the games: questions about stored profiles, and kernels to make faster, with and without the tools of rooflens.

python eval/agent/play.py questions                              the scripted player: every question, the fewest calls
python eval/agent/play.py questions --player openai --base https://HOST/v1 --model NAME --key-env VARIABLE --tools both
python eval/agent/play.py kernels --run-code --player command --program "./my_player --fast"
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from rooflens.analysis.store.store import Store
from rooflens.eval.agent.games import asking, kernels, scores, tasks
from rooflens.eval.agent.games.server import Toolbox, serving
from rooflens.eval.agent.games.workbench import Limits
from rooflens.eval.agent.players.command import CommandPlayer
from rooflens.eval.agent.players.dialects import DIALECTS
from rooflens.eval.agent.players.endpoint import Address, EndpointPlayer
from rooflens.eval.agent.players.turn import Player, PlayerFailed

WAYS = {"with": (True,), "without": (False,), "both": (True, False)}
_NAMES = {True: "with tools", False: "without tools"}


async def questions(options: argparse.Namespace) -> dict[str, Any]:
    """Play the question game; return the scores by mode."""
    asked = [q for q in asking.questions() if not options.only or q.level in options.only]
    if not asked:
        raise tasks.NoTask(
            f"there is no question of level {', '.join(options.only)}; levels: {', '.join(asking.LEVELS)}"
        )
    found = {}
    for with_tools in WAYS[options.tools]:
        name = _NAMES[with_tools]
        player = _player(options) or asking.ideal(asked)
        try:
            async with _stored_questions(with_tools) as tools:
                done = await asking.play(player, asked, tools, _place(options, "questions", name))
        finally:
            await player.close()
        found[name] = scores.of_questions(done)
    return found


@asynccontextmanager
async def _stored_questions(with_tools: bool) -> AsyncIterator[Toolbox | None]:
    """The tools of a server with every recording in its store; None if the game is played without tools."""
    if not with_tools:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="rooflens-game-", ignore_cleanup_errors=True) as folder:
        asking.load(Store(folder))
        async with serving(Path(folder)) as tools:
            yield tools


async def played(options: argparse.Namespace) -> dict[str, Any]:
    """Play the kernel game; return the scores by mode."""
    wanted = [t for t in tasks.tasks(options.tasks) if not options.only or {t.name, t.language} & set(options.only)]
    if not wanted:
        raise tasks.NoTask(f"no task is called or written in {', '.join(options.only)}")
    limits = Limits(options.seconds, options.memory_mb << 20)
    found = {}
    for with_tools in WAYS[options.tools]:
        name, done = _NAMES[with_tools], []
        for task in wanted:
            player = _player(options) or (kernels.scripted(task) if task.best else None)
            if player is None:
                raise tasks.NoTask(f"{task.name} has no known best version, so the scripted player cannot play it")
            place = _place(options, "kernels", name)
            try:
                done.append(await kernels.play(player, task, with_tools=with_tools, limits=limits, transcripts=place))
            finally:
                await player.close()
        found[name] = scores.of_kernels(done)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Return exit status 0; 1 if the scripted player misses something; 2 if the game cannot be played."""
    options = _options(words)
    game: Callable[[argparse.Namespace], Any] = questions if options.game == "questions" else played
    if options.game == "kernels" and not options.run_code:
        print(
            "This game compiles and runs what the player writes, as you, on this machine. Give --run-code to allow it; "
            "with a model that you do not trust, in a container.",
            file=sys.stderr,
        )
        return 2
    try:
        found = anyio.run(game, options)
    except (PlayerFailed, tasks.NoTask) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1) if options.json else scores.table(found))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{options.game}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    # Without tools the scripted player cannot answer, which is not an error.
    missed = scores.misses(found.get(_NAMES[True], {})) if options.player == "script" else []
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("game", choices=["questions", "kernels"])
    parser.add_argument("--player", choices=["script", "command", *DIALECTS], default="script")
    parser.add_argument(
        "--base", metavar="URL", help="address of an endpoint including its version, such as https://host/v1"
    )
    parser.add_argument("--model", help="name of the model")
    parser.add_argument("--key-env", metavar="VARIABLE", help="environment variable with the API key")
    parser.add_argument("--program", help="local program that plays (--player command), with its arguments")
    parser.add_argument("--tools", choices=WAYS, default="with", help="offer the tools of rooflens (default: with)")
    parser.add_argument("--only", action="append", metavar="NAME", help="levels of questions; tasks or languages")
    parser.add_argument("--tasks", type=Path, default=tasks.FOLDER, metavar="DIR", help="tasks, or KernelBench's files")
    parser.add_argument(
        "--run-code", action="store_true", help="allow compiling and running the code that the player writes"
    )
    parser.add_argument("--seconds", type=float, default=120, help="limit of each build and run (default 120)")
    parser.add_argument("--memory-mb", type=int, default=16384, help="limit of each build and run (default 16384)")
    parser.add_argument("--turn-seconds", type=float, default=300, help="limit for each reply (default 300)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for scores and transcripts")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    options = parser.parse_args(words)
    if options.player in DIALECTS and not (options.base and options.model):
        parser.error(f"--player {options.player} needs --base and --model")
    if options.player == "command" and not options.program:
        parser.error("--player command needs --program")
    return options


def _player(options: argparse.Namespace) -> Player | None:
    """The requested player; None for the scripted one, which depends on the game."""
    if options.player == "command":
        return CommandPlayer(shlex.split(options.program), timeout_s=options.turn_seconds)
    if options.player in DIALECTS:
        address = Address(options.base, options.player, options.model, options.key_env)
        return EndpointPlayer(address, timeout_s=options.turn_seconds)
    return None


def _place(options: argparse.Namespace, game: str, way: str) -> Path | None:
    return options.out / game / way.replace(" ", "_") if options.out else None


if __name__ == "__main__":
    sys.exit(main())
