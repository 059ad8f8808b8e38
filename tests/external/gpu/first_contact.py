"""Everything that the owner of an AMD GPU can tell by one command, in one file to send: ``make check-amd``.

    python -m rooflens.tests.external.gpu.first_contact FILE

Runs check_counters, the micro-benchmarks, the live tests marked ``amd`` and doctor, each with a limit; what fails is
told and does not stop the rest. Names of user, host and folders, addresses of devices and secrets stay out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rooflens.analysis.base.problems import BadArgument, Problem
from rooflens.analysis.base.text import visible_lines
from rooflens.server.doctor.bundle import here, refuse_existing
from rooflens.tests import ROOT
from rooflens.tools.device.machine.model import Roots
from rooflens.tools.device.machine.survey import survey

_MOST = 60_000
"""Characters of one part, its beginning and its end."""


@dataclass(frozen=True)
class Part:
    """One program of ours to run; ``file`` is what it writes, where that is more than it prints."""

    title: str
    argv: tuple[str, ...]
    limit_s: float
    file: str = ""


def parts(folder: Path) -> list[Part]:
    """What is run, in order."""
    rooflens = (sys.executable, "-m", "rooflens", "--store", str(folder / "store"))
    quick = '{"device": "amd", "mode": "quick"}'
    functional = '{"device": "amd", "mode": "functional"}'
    report, bundle = str(folder / "check.md"), str(folder / "bundle.txt")
    live = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "amd",
        "-rs",
        "-p",
        "no:cacheprovider",
        str(ROOT / "tests" / "external" / "gpu"),
    )
    return [
        Part("check_counters", (*rooflens, "check", "--output", report), 1800, report),
        Part("Micro-benchmarks: results", (*rooflens, "call", "run_peak_benchmarks", functional), 900),
        Part("Micro-benchmarks: rates", (*rooflens, "call", "run_peak_benchmarks", quick), 600),
        Part("Live tests", live, 1200),
        # Last, so that it holds the logs of what failed before.
        Part("doctor", (*rooflens, "doctor", "--bundle", bundle), 300, bundle),
    ]


def told(part: Part) -> str:
    """What one part printed and wrote, and how it ended."""
    try:
        done = subprocess.run(part.argv, capture_output=True, text=True, errors="replace", timeout=part.limit_s,
                              check=False, cwd="/")  # fmt: skip
        ended, text = f"status {done.returncode}", f"{done.stdout}\n{done.stderr}"
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"", error.stderr or b"")
        ended, text = (
            f"not done after {part.limit_s:g} s",
            "\n".join(s.decode(errors="replace") for s in map(_raw, said)),
        )
    if part.file and Path(part.file).is_file():
        text += "\n" + Path(part.file).read_text(encoding="utf-8", errors="replace")
    return f"## {part.title} ({ended})\n\n{_ends(text)}\n"


def _raw(said: bytes | str) -> bytes:
    return said.encode() if isinstance(said, str) else said


def _ends(text: str) -> str:
    half = _MOST // 2
    return text if len(text) <= _MOST else f"{text[:half]}\n[...]\n{text[-half:]}"


def report(chosen: Sequence[Part], secret: Sequence[str] = ()) -> str:
    """The text to send; ``secret`` are further words that must not be in it."""
    scrubber = here()
    lines = ["# rooflens on an AMD GPU: first contact", ""]
    for part in chosen:
        print(f"{part.title} ...", flush=True)
        lines.append(told(part))
    text = visible_lines(scrubber.text("\n".join(lines)))
    for word in secret:
        text = text.replace(word, "[device]")
    return text


def main() -> int:
    """Write the report; 1 where it cannot be, or where there is no AMD GPU."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "rooflens-amd.txt")
    try:
        refuse_existing(target)
        devices = [device for device in survey(Roots()).gpus if device.vendor == "amd"]
        if not devices:
            raise BadArgument("There is no AMD GPU to check", "the kernel driver shows none", "See rooflens doctor")
        secret = [word for device in devices for word in (device.uuid, device.pci) if word]
        with tempfile.TemporaryDirectory(prefix="rooflens_") as folder:
            text = report(parts(Path(folder)), [*secret, folder])
        target.write_text(text, encoding="utf-8")
    except Problem as problem:
        print(problem.text, file=sys.stderr)
        return 1
    print(f"{target}: read it, then send it with an issue.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
