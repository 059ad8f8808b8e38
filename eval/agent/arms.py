"""Play the programs with four kinds of feedback: none, the vendor's text, raw counters, and rooflens.

python eval/agent/arms.py --run-code --out DIR [--program CMD] [--seeds 1,2,3] [--arm ARM] [--only NAME] [--rounds N]

CMD is any program that reads a prompt from its standard input and writes a model's reply to its standard output.
Without it, every game stops at its next prompt, DIR/PROGRAM.ARM.SEED/prompt-N.md, and goes on when reply-N.md is
beside it and this is run again: the GPU and the model can be on different machines. Every arm has the same prompts but
for the feedback, the same number of rounds, and feedback of at most the same length.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from rooflens.eval.agent.feedback import ARMS, PROGRAMS, Machine, Version, feedback

CHARACTERS_PER_TOKEN = 4
RESAMPLED = 2000
Report = dict[str, Any]
_FILE = re.compile(
    r"^```[\w+]*[ \t]+(?:path=([\w./-]+)|([\w./-]+\.\w+))[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)
_RULES = """Make this program faster on the GPU of this machine. The interface in main.py (or the build script) stays;
hidden tests compare the results for inputs that you have not seen, and every timed call has new inputs. Reply with the
whole text of each file that you change or add, each in a fenced code block whose first line is ```python path=NAME.
Files that you do not send stay as they are."""


@dataclass(frozen=True)
class Limits:
    """What every arm may use alike."""

    rounds: int = 3
    feedback_characters: int = 12_000
    repeat: int = 3
    reply_s: float = 900.0


@dataclass(frozen=True)
class Game:
    """One program played in one arm with one seed. All that is known of it is in its folder."""

    program: str
    arm: str
    seed: int
    folder: Path

    @property
    def reports(self) -> list[Report]:
        """What the judge said of each round, with the seconds of the original on the same machine."""
        found: list[Report] = []
        while (file := self.file("round", len(found) + 1)).is_file():
            found.append(json.loads(file.read_text(encoding="utf-8")))
        return found

    @property
    def best(self) -> int:
        """The number of the fastest right version; 0 is the original."""
        return max(enumerate([1.0, *map(gain, self.reports)]), key=lambda version: version[1] or 0.0)[0]

    @property
    def speedup(self) -> float | None:
        """The gain of the best right version; 1 if none was faster, None if the original could not be measured."""
        reports = self.reports
        if not any(report["original_s"] for report in reports):
            return None
        return max(1.0, *(gain(report) or 0.0 for report in reports))

    @property
    def tokens(self) -> int:
        """Estimated from the characters of prompts and replies."""
        texts = [*self.folder.glob("prompt-*.md"), *self.folder.glob("reply-*.md")]
        return math.ceil(sum(len(path.read_text(encoding="utf-8")) for path in texts) / CHARACTERS_PER_TOKEN)

    def version(self, number: int) -> Version:
        """One version of the program in this game."""
        return Version(PROGRAMS / self.program, self.folder / f"v{number}", self.folder / "store")

    def file(self, kind: str, number: int) -> Path:
        """A file of a round: its prompt, its reply, or its report."""
        return self.folder / f"{kind}-{number}.{'json' if kind == 'round' else 'md'}"


def gain(report: Report) -> float | None:
    """How many times as fast as the original a version is, measured on one machine; None if it is not right."""
    known = report["right"] and report["seconds"] and report["original_s"]
    return report["original_s"] / report["seconds"] if known else None


def reply_files(reply: str) -> dict[str, str]:
    """The files in a reply by their relative names; names that lead out of the folder are dropped."""
    named = {match[1] or match[2]: match[3] for match in _FILE.finditer(reply)}
    return {n: text for n, text in named.items() if not n.startswith("/") and ".." not in Path(n).parts}


def sources(version: Path) -> str:
    """All files of a version, as a reply would send them."""
    files = sorted(path for path in version.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return "\n\n".join(f"```text path={p.relative_to(version)}\n{p.read_text(encoding='utf-8')}```" for p in files)


def judge(version: Version, seed: int, limits: Limits, machine: Machine) -> Report:
    """The report of the judge; a version that fails is not right."""
    command = version.command("--seed", str(seed), "--repeat", str(limits.repeat))
    text = machine.output(command, machine.judge_s)
    try:
        report: Report = json.loads(text.strip().rpartition("\n")[2])
    except ValueError:
        return {"right": False, "problem": text[-1500:], "seconds": None}
    return report


def prompt(game: Game, original: Report, limits: Limits, machine: Machine) -> str:
    """What the player reads before a round: rules, task, the best version, results so far, and the feedback."""
    best, first = game.version(game.best), game.version(0)
    kept = game.file("feedback", game.best)
    if not kept.is_file():
        kept.write_text(feedback(game.arm, best, first, machine, limits.feedback_characters), encoding="utf-8")
    profile = kept.read_text(encoding="utf-8")[: limits.feedback_characters]
    task = (PROGRAMS / game.program / "program.toml").read_text(encoding="utf-8").partition("runs = ")[0]
    history = [f"original: {json.dumps(original)}"]
    history += [f"round {number}: {json.dumps(report)}" for number, report in enumerate(game.reports, 1)]
    parts = [_RULES, task, sources(best.folder), "Results so far:", *history, "Profile:", profile or "none"]
    return "\n\n".join(parts)


def play(
    game: Game, original: Callable[[], Report], player: Sequence[str] | None, limits: Limits, machine: Machine
) -> None:
    """Play the rounds that can be played; each begins from the best right version."""
    if not game.folder.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROGRAMS / game.program / "original", game.version(0).folder, ignore=ignored)
    for number in range(len(game.reports) + 1, limits.rounds + 1):
        asked, answered = game.file("prompt", number), game.file("reply", number)
        if not asked.is_file():
            asked.write_text(prompt(game, original(), limits, machine), encoding="utf-8")
        if not answered.is_file():
            if player is None:
                return
            answered.write_text(_reply(player, asked, limits.reply_s), encoding="utf-8")
        version = game.version(number)
        shutil.copytree(game.version(game.best).folder, version.folder, dirs_exist_ok=True)
        for name, text in reply_files(answered.read_text(encoding="utf-8")).items():
            (version.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (version.folder / name).write_text(text, encoding="utf-8")
        report = judge(version, game.seed + number, limits, machine)
        report["original_s"] = original()["seconds"]
        game.file("round", number).write_text(json.dumps(report) + "\n", encoding="utf-8")


def _reply(player: Sequence[str], asked: Path, limit_s: float) -> str:
    """What the player writes; what came of it if it fails, as no file can be read from that."""
    try:
        with asked.open("rb") as file:
            done = subprocess.run(player, stdin=file, capture_output=True, timeout=limit_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return done.stdout.decode("utf-8", "replace")


def play_program(games: Sequence[Game], player: Sequence[str] | None, limits: Limits, machine: Machine) -> None:
    """Play all games of one program, one after the other, on one GPU."""

    @cache
    def original(seed: int) -> Report:  # once in every call of this script, because machines differ
        folder = PROGRAMS / games[0].program
        return judge(Version(folder, folder / "original", games[0].folder), seed, limits, machine)

    for game in games:
        play(game, partial(original, game.seed), player, limits, machine)


def summary(games: Sequence[Game]) -> dict[str, dict[str, Any]]:
    """By arm: the geometric mean of the speed-ups with its 95 % interval (bootstrap over games), rounds and tokens."""
    chosen, by_arm = random.Random(0), {}
    for arm in dict.fromkeys(game.arm for game in games):
        mine = [game for game in games if game.arm == arm]
        reports = [report for game in mine for report in game.reports]
        logs = [math.log(speedup) for game in mine if (speedup := game.speedup) is not None]
        means = sorted(sum(chosen.choices(logs, k=len(logs))) / len(logs) for _ in range(RESAMPLED)) if logs else []
        by_arm[arm] = {
            "games": len(mine),
            "speedup": math.exp(sum(logs) / len(logs)) if logs else None,
            "low": math.exp(means[round(0.025 * RESAMPLED)]) if means else None,
            "high": math.exp(means[round(0.975 * RESAMPLED) - 1]) if means else None,
            "right_rounds": sum(report["right"] for report in reports),
            "rounds": len(reports),
            "tokens": sum(game.tokens for game in mine),
        }
    return by_arm


def _machines(gpus: Sequence[str | None]) -> queue.SimpleQueue[Machine]:
    """The GPUs that wait for a program; None is the machine as it is."""
    free: queue.SimpleQueue[Machine] = queue.SimpleQueue()
    # Threads of two programs that wait for each other on the same cores make both many times slower.
    threads = str(max(1, (os.cpu_count() or 1) // len(gpus)))
    for gpu in gpus:
        own = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu, "OMP_NUM_THREADS": threads}
        free.put(Machine({**os.environ, **own}))
    return free


def main(words: Sequence[str] | None = None) -> int:
    """Return 0, or 2 if running the player's code was not allowed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", metavar="CMD", help="reads a prompt, writes a reply; default: stop at each prompt")
    parser.add_argument("--arm", action="append", choices=ARMS)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rounds", type=int, default=Limits.rounds)
    parser.add_argument("--repeat", type=int, default=Limits.repeat, help="timed calls of a version")
    parser.add_argument("--feedback-characters", type=int, default=Limits.feedback_characters)
    parser.add_argument("--gpus", default="", help="several programs at once: the GPUs, such as 0,1")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--run-code", action="store_true", help="allow running what the player writes, as you")
    options = parser.parse_args(words)
    if not options.run_code:
        print("This game runs what the player writes, as you, on this machine. Give --run-code.", file=sys.stderr)
        return 2
    limits = Limits(options.rounds, options.feedback_characters, options.repeat)
    player = shlex.split(options.program) if options.program else None
    out: Path = options.out.resolve()
    names = [path.parent.name for path in sorted(PROGRAMS.glob("*/hidden.py"))]
    by_program = [
        [
            Game(name, arm, int(seed), out / f"{name}.{arm}.{seed}")
            for seed in options.seeds.split(",")
            for arm in options.arm or ARMS
        ]
        for name in options.only or names
    ]
    gpus = options.gpus.split(",") if options.gpus else [None]
    free = _machines(gpus)

    def played(games: Sequence[Game]) -> None:
        machine = free.get()
        try:
            play_program(games, player, limits, machine)
        finally:
            free.put(machine)

    with ThreadPoolExecutor(len(gpus)) as pool:
        list(pool.map(played, by_program))
    games = [game for games in by_program for game in games]
    listed = [
        {"program": g.program, "arm": g.arm, "seed": g.seed, "speedup": g.speedup, "rounds": g.reports} for g in games
    ]
    found = {"summary": summary(games), "games": listed}
    (out / "arms.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["summary"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
