"""Run every program in its original and its expert version against the hidden tests, and print times as JSON.

python eval/agent/programs/check.py [--only NAME] [--version FOLDER] [--small] [--seed S] [--repeat R]

It needs PyTorch (with Triton for the program train) and nvcc for programs in CUDA, but not rooflens. Without a GPU,
programs in PyTorch run on the CPU with --small, which checks results only. ``--version`` measures another version of
one program, such as a player's, instead of the expert's. A version has the files that differ from the original's.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT_S = 300


def programs():
    """The folders of the programs by name."""
    return {path.parent.name: path.parent for path in sorted(HERE.glob("*/hidden.py"))}


def judge(program, version, options, limit_s=LIMIT_S):
    """Judge one version, laid over the original; a failure is a report with ``right`` false and its last words."""
    with tempfile.TemporaryDirectory() as whole:
        for part in (program / "original", version):
            shutil.copytree(part, whole, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        words = [sys.executable, "-B", str(HERE / "judge.py"), str(program), whole]
        words += ["--seed", str(options.seed), "--repeat", str(options.repeat), *(["--small"] if options.small else [])]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return {"right": False, "problem": f"it took longer than {limit_s} s", "seconds": None}
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        return json.loads(last)
    except ValueError:
        return {"right": False, "problem": (done.stderr or done.stdout)[-1500:], "seconds": None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append")
    parser.add_argument("--version", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    reports = {}
    for name, folder in programs().items():
        if options.only and name not in options.only:
            continue
        other = options.version or folder / "expert"
        original, changed = (judge(folder, version, options) for version in (folder / "original", other))
        known = original["seconds"] and changed["seconds"] and original["right"] and changed["right"]
        ratio = round(original["seconds"] / changed["seconds"], 3) if known else None
        reports[name] = {"original": original, other.name: changed, "speedup": ratio}
        print(name, json.dumps(reports[name]), file=sys.stderr, flush=True)
    print(json.dumps(reports, indent=1))
    return 0 if all(one["right"] for r in reports.values() for one in r.values() if isinstance(one, dict)) else 1


if __name__ == "__main__":
    sys.exit(main())
