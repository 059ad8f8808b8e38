"""Scores a recording of `record.py`: python eval/interventions/score.py DIR [--kernels]"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from interventions import diagnoses, scoring

from rooflens.analysis.store.store import Store


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--kernels", action="store_true", help="also list each kernel that the strict criterion counts as missed"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        truths = scoring.truths(options.folder / "times.csv")
        counters = options.folder / "counters.csv.gz"
        pairs = diagnoses.of_recording(Store(folder), counters, truths, diagnoses.NAME)
    found = diagnoses.scores(pairs)
    print("\n".join(diagnoses.report(found)))
    for what in ("wrong_and_sure", "bounds_below_a_fix"):
        print(f"{what}: {found[what] or 'none'}")
    for truth, said in pairs if options.kernels else ():
        if truth.anything_helps and not scoring.best_of_everything(truth, said.subsystem, proofs=False):
            best = max(truth.measured, key=lambda m: m.gain)
            print(f"{truth.kernel} {truth.family}: {said.subsystem} {said.confidence:.2f}, {best.what} {best.gain:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
