"""Record the answers of the tools, or compare them with what was recorded.

python -m rooflens.tests.cases.answers compare [case ...]    what differs; exit status 1 if anything does
python -m rooflens.tests.cases.answers record [case ...]     rewrite the files of cases that differ
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from rooflens.tests.cases.answers import recording
from rooflens.tests.cases.answers.cases import CASES, Case


def main() -> int:
    """The exit status of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rooflens.tests.cases.answers", description="Recorded answers of the tools."
    )
    parser.add_argument("do", choices=("compare", "record"))
    parser.add_argument("case", nargs="*", help="cases to take, or parts of their names; default: all")
    parser.add_argument("--times", action="store_true", help="tell the processor time of every case")
    asked = parser.parse_args()
    cases = [case for case in CASES if not asked.case or any(part in case.name for part in asked.case)]
    differing = sum(_differing(case, write=asked.do == "record", times=asked.times) for case in cases)
    if not asked.case:
        for file in recording.superfluous(CASES):
            print(f"{file.name} belongs to no case")
            if asked.do == "record":
                file.unlink()
    size = sum(file.stat().st_size for file in recording.DATA.glob("*.json.xz"))
    done = "recorded anew" if asked.do == "record" else "with differences"
    print(f"{len(cases)} cases, {differing} {done}; the recording has {size / 1000:.0f} kB")
    return int(bool(differing) and asked.do == "compare")


def _differing(case: Case, *, write: bool, times: bool) -> bool:
    """Whether a case differs from what was recorded, which is told; with ``write`` it is then recorded anew."""
    if case.lacks:
        print(f"{case.name} is left out: it {case.lacks}")
        return False
    begun = sum(os.times()[:4])
    with tempfile.TemporaryDirectory() as folder:
        now = recording.found(case, Path(folder).resolve())
    if times:
        print(f"{case.name}: {sum(os.times()[:4]) - begun:.2f} s")
    try:
        before = recording.recorded(case)
    except FileNotFoundError:
        before = {}
        print(f"{case.name} was never recorded")
    differing = recording.differences(case, before, now) if before else []
    if differing:
        print(recording.told(differing), flush=True)
    changed = bool(differing) or not before
    if write and changed:
        recording.record(case, now)
    return changed


if __name__ == "__main__":
    sys.exit(main())
