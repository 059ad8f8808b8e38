"""Play the programs with four kinds of feedback: none, the vendor's text, raw counters, and rooflens.

python eval/agent/arms.py --run-code --program "CMD" --seeds 1,2,3 --out DIR [--arm ARM] [--only NAME] [--rounds N]

CMD is any program that reads a prompt from its standard input and writes a model's reply to its standard output. Every
arm has the same prompts but for the feedback, the same number of rounds, and feedback of at most the same length.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
ARMS = ("none", "vendor", "raw", "rooflens")
CHARACTERS_PER_TOKEN = 4
RESAMPLED = 2000
_FILE = re.compile(r"^```[\w+]*[ \t]+(?:path=)?([\w./-]+\.\w+)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_RULES = """Make this program faster on the GPU of this machine. The interface in main.py (or the build script) stays;
hidden tests compare the results for inputs that you have not seen, and every timed call has new inputs. Reply with the
whole text of each file that you change or add, each in a fenced code block whose first line is ```python path=NAME.
Files that you do not send stay as they are."""
_RAW = (
    "SELECT d.kernel, count(*) AS launches, sum(d.duration_ns) AS total_ns, avg(COLUMNS(c.* EXCLUDE (workload, "
    "dispatch_id, kernel, duration_ns))) FROM dispatches AS d LEFT JOIN counters AS c USING (dispatch_id) "
    "GROUP BY d.kernel ORDER BY total_ns DESC LIMIT 12"
)


@dataclass(frozen=True)
class Limits:
    """What every arm may use alike."""

    rounds: int = 3
    feedback_characters: int = 12_000
    judge_s: float = 600.0
    profile_s: float = 240.0
    reply_s: float = 900.0


@dataclass(frozen=True)
class ArmGame:
    """One program played in one arm with one seed."""

    program: str
    arm: str
    seed: int
    original_s: float | None
    best_s: float | None
    rounds: int
    right_rounds: int
    tokens: int
    """Estimated from the characters of prompts and replies."""

    @property
    def speedup(self) -> float | None:
        """The best right version; 1 if none was faster, None if the original itself could not be measured."""
        if self.original_s is None:
            return None
        return max(1.0, self.original_s / self.best_s) if self.best_s else 1.0


def files_of(reply: str) -> dict[str, str]:
    """The files in a reply by their relative names; names that lead out of the folder are dropped."""
    named = dict(_FILE.findall(reply))
    return {n: text for n, text in named.items() if not n.startswith("/") and ".." not in Path(n).parts}


def sources(version: Path) -> str:
    """All files of a version, as a reply would send them."""
    files = sorted(path for path in version.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return "\n\n".join(f"```text path={p.relative_to(version)}\n{p.read_text(encoding='utf-8')}```" for p in files)


def judge_command(program: str, version: Path, seed: int, *options: str) -> list[str]:
    """The command that runs a version of a program."""
    # Without -B, Python could use the bytecode of an earlier version whose files have the same size and second.
    words = [
        sys.executable,
        "-B",
        str(PROGRAMS / "judge.py"),
        str(PROGRAMS / program),
        str(version),
        "--seed",
        str(seed),
    ]
    return [*words, *options]


def judge(program: str, version: Path, seed: int, limits: Limits) -> dict[str, Any]:
    """The report of the judge; a version that fails is not right."""
    text = _output(judge_command(program, version, seed), limits.judge_s)
    try:
        report: dict[str, Any] = json.loads(text.strip().rpartition("\n")[2])
    except ValueError:
        return {"right": False, "problem": text[-1500:], "seconds": None}
    return report


def feedback(arm: str, program: str, version: Path, store: Path, baseline: str | None, limits: Limits) -> str:
    """What a player of this arm learns about the last right version besides its time."""
    command = judge_command(program, version, 1, "--no-check", "--repeat", "1")
    name = version.name
    rooflens = [sys.executable, "-m", "rooflens"]
    if arm == "vendor":
        report = str(store / name)
        nsys = ["nsys", "profile", "-t", "cuda,nvtx", "-s", "none", "-f", "true", "-o", report, *command]
        tables = ["nsys", "stats", "-r", "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_api_sum", f"{report}.nsys-rep"]
        ncu = ["ncu", "--set", "basic", "--launch-skip", "20", "--launch-count", "8", *command]
        half = limits.feedback_characters // 2
        _output(nsys, limits.profile_s)
        return f"{_output(tables, limits.profile_s)[:half]}\n{_output(ncu, limits.profile_s)[-half:]}"
    if arm == "raw":
        _output([*rooflens, "profile", "--store", str(store), f"name={name}", "--wait-s", "600", "--", *command], 700)
        return _output([*rooflens, "sql", "--store", str(store), name, _RAW, "--text"], limits.profile_s)
    if arm == "rooflens":
        against = [f"baseline={baseline}"] if baseline else []
        words = [*rooflens, "round", "--store", str(store), f"name={name}", *against, "--wait-s", "600", "--", *command]
        return _output(words, 700)
    return ""


def _output(command: Sequence[str], limit_s: float, text: str = "") -> str:
    """What a command prints, on both streams; why it printed nothing, if it cannot run."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {limit_s:.0f} s"
    except OSError as problem:
        return f"{command[0]} cannot be started: {problem.strerror}"
    return done.stdout if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"


def play(player: Sequence[str], program: str, arm: str, seed: int, limits: Limits, out: Path) -> ArmGame:
    """Play all rounds; each begins from the best right version, and the transcript has all that was said."""
    stated = (PROGRAMS / program / "program.toml").read_text(encoding="utf-8").partition("causes = ")[0]
    transcript = out / f"{program}.{arm}.{seed}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rooflens-arms-") as folder, transcript.open("w", encoding="utf-8") as file:

        def write(what: str, **facts: Any) -> None:
            file.write(json.dumps({"what": what, **facts}) + "\n")
            file.flush()

        best = Path(folder) / "v0"
        shutil.copytree(PROGRAMS / program / "original", best, ignore=shutil.ignore_patterns("__pycache__"))
        report = judge(program, best, seed, limits)
        original_s = best_s = report["seconds"] if report["right"] else None
        write("original", report=report)
        told = feedback(arm, program, best, Path(folder), None, limits)[: limits.feedback_characters]
        history, spoken, right = [f"original: {json.dumps(report)}"], 0, 0
        for number in range(1, limits.rounds + 1):
            prompt = "\n\n".join(
                [_RULES, stated, sources(best), "Results so far:", *history, "Profile:", told or "none"]
            )
            reply = _output(player, limits.reply_s, prompt)
            version = Path(folder) / f"v{number}"
            shutil.copytree(best, version, ignore=shutil.ignore_patterns("__pycache__"))
            for name, text in files_of(reply).items():
                (version / name).parent.mkdir(parents=True, exist_ok=True)
                (version / name).write_text(text, encoding="utf-8")
            report = judge(program, version, seed + number, limits)
            spoken += len(prompt) + len(reply)
            write("round", number=number, prompt=prompt, reply=reply, report=report)
            history.append(f"round {number}: {json.dumps(report)}")
            if report["right"]:
                right += 1
                told = feedback(arm, program, version, Path(folder), "v0", limits)[: limits.feedback_characters]
                if best_s is None or report["seconds"] < best_s:
                    best, best_s = version, report["seconds"]
        game = ArmGame(
            program, arm, seed, original_s, best_s, limits.rounds, right, math.ceil(spoken / CHARACTERS_PER_TOKEN)
        )
        write("game", **asdict(game))
    return game


def summary(games: Sequence[ArmGame]) -> dict[str, dict[str, Any]]:
    """By arm: the geometric mean of the speed-ups with its 95 % interval (bootstrap over games), rounds and tokens."""
    chosen, by_arm = random.Random(0), {}
    for arm in dict.fromkeys(game.arm for game in games):
        mine = [game for game in games if game.arm == arm]
        logs = [math.log(speedup) for game in mine if (speedup := game.speedup) is not None]
        means = sorted(sum(chosen.choices(logs, k=len(logs))) / len(logs) for _ in range(RESAMPLED)) if logs else []
        by_arm[arm] = {
            "games": len(mine),
            "speedup": math.exp(sum(logs) / len(logs)) if logs else None,
            "low": math.exp(means[round(0.025 * RESAMPLED)]) if means else None,
            "high": math.exp(means[round(0.975 * RESAMPLED) - 1]) if means else None,
            "right_rounds": sum(game.right_rounds for game in mine),
            "rounds": sum(game.rounds for game in mine),
            "tokens": sum(game.tokens for game in mine),
        }
    return by_arm


def main(words: Sequence[str] | None = None) -> int:
    """Return 0, or 2 if running the player's code was not allowed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", required=True, metavar="CMD", help="reads a prompt, writes a reply")
    parser.add_argument("--arm", action="append", choices=ARMS)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--feedback-characters", type=int, default=12_000)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--run-code", action="store_true", help="allow running what the player writes, as you")
    options = parser.parse_args(words)
    if not options.run_code:
        print("This game runs what the player writes, as you, on this machine. Give --run-code.", file=sys.stderr)
        return 2
    limits = Limits(options.rounds, options.feedback_characters)
    names = sorted(path.parent.name for path in PROGRAMS.glob("*/hidden.py"))
    games = [
        play(shlex.split(options.program), name, arm, int(seed), limits, options.out / "transcripts")
        for name in names
        if not options.only or name in options.only
        for seed in options.seeds.split(",")
        for arm in options.arm or ARMS
    ]
    found = {"summary": summary(games), "games": [{**asdict(g), "speedup": g.speedup} for g in games]}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "arms.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["summary"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
