"""Fuzz the readers for FUZZ_SECONDS in all, with random seeds (``make fuzz``); keeps the files that cause a breach."""

from __future__ import annotations

import os
import random
import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from rooflens.tests.fuzz.judge import Tally, judge
from rooflens.tests.fuzz.profiles import READERS, Spoilt

_ROUND = 100
_HANG_S = 300


def fuzz(reader: str, seconds: float, keep: Path) -> tuple[Tally, dict[str, str]]:
    """The tally of one reader, and its breaches: where in the code -> what."""
    tally = Tally()
    breaches: dict[str, str] = {}
    end = time.monotonic() + seconds

    def check(spoilt: Spoilt) -> None:
        if time.monotonic() > end:
            return
        try:
            judge(spoilt, reader, tally)
        except Exception as error:  # noqa: BLE001  every breach is told, and the run goes on
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno} {type(error).__name__}"
            if where not in breaches:
                breaches[where] = f"{str(error)[:300]}\n{traceback.format_exc()[-1500:]}"
                for name, content in spoilt.files.items():
                    file = keep / reader.replace(" ", "_") / str(len(breaches)) / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)

    while time.monotonic() < end:
        options = settings(
            max_examples=_ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )  # fmt: skip
        seed(random.getrandbits(64))(options(given(READERS[reader]())(check)))()
    return tally, breaches


def main() -> int:
    """Fuzz the readers named on the command line, or all, and print what was seen."""
    import faulthandler

    faulthandler.enable()
    readers = sys.argv[1:] or [*READERS]
    seconds = float(os.environ.get("FUZZ_SECONDS", "60")) / len(readers)
    keep = Path(os.environ.get("FUZZ_KEEP", "fuzz_breaches")).resolve()
    failed = False
    print(f"{'reader':16} examples  imports  problems  slowest  memory  breaches", flush=True)
    for reader in readers:
        faulthandler.dump_traceback_later(seconds + _HANG_S, exit=True)
        tally, breaches = fuzz(reader, seconds, keep)
        problems = sum(tally.problems.values())
        print(
            f"{reader:16} {tally.examples:8}  {tally.imports:7}  {problems:8}  {tally.slowest_s:5.1f} s"
            f"  {tally.most_bytes >> 20:3} MiB  {len(breaches):8}",
            flush=True,
        )
        for where, what in breaches.items():
            print(f"  {where}: {what}", flush=True)
        failed |= bool(breaches)
    if failed:
        print(f"The files that cause the breaches are in {keep}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
