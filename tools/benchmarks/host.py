"""What this machine's processors can reach: bandwidth of memory and caches, multiply-adds, and the roof of both."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Literal

from ...analysis.problems import NotFound, near
from .host_caches import caches, cpus
from .judge import Outcome

Mode = Literal["full", "quick", "functional"]
Progress = Callable[[str, int, int, Outcome | None], None]
_KINDS = ("read", "copy", "triad")


def ceilings() -> tuple[str, ...]:
    """The names of what can be measured on this machine; all start with ``host.``."""
    levels = [*(c.name for c in caches(cpus())), "dram"]
    rates = [f"host.{level}.{kind}" for level in levels for kind in _KINDS]
    return ("host.fma.f32", "host.fma.f64", *rates, "host.sweep.f64")


def chosen(wanted: Iterable[str] | None) -> tuple[str, ...]:
    """The ceilings meant by names or by the parts before a dot (host, host.dram), None for all.

    Raises NotFound for a word that means none.
    """
    known = ceilings()
    if not wanted:
        return known
    kept: set[str] = set()
    for word in wanted:
        meant = {name for name in known if name == word or name.startswith(f"{word}.")}
        if not meant:
            raise NotFound(
                f"There is no ceiling {word!r} to measure on the processors",
                near(word, known),
                f"Known: {', '.join(known)}",
            )
        kept |= meant
    return tuple(name for name in known if name in kept)


def identity() -> str:
    """A name of this machine that stays, and says nothing of it: a digest of its machine-id, else of its name."""
    told = next((p for p in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")) if p.is_file()), None)
    known = told.read_text(encoding="ascii", errors="replace").strip() if told else ""
    return f"host-{hashlib.sha256(f'rooflens {known or socket.gethostname()}'.encode()).hexdigest()[:16]}"


def partition() -> str:
    """How many of the machine's processors this process may use."""
    return f"{len(cpus())} of {os.cpu_count()} processors"


def run(
    wanted: Iterable[str] | None, mode: Mode, *, progress: Progress, cancelled: Callable[[], bool]
) -> list[Outcome]:
    """Measure the ceilings that ``chosen`` finds in ``wanted``, or in mode functional only check every kernel.

    Bytes are GB/s of what the program reads and writes, operations GFLOP/s with a multiply-add as two. A sweep has an
    outcome for each of its intensities.
    """
    from .host_kernels import load

    # First, as it decides how many threads NumPy's BLAS takes.
    kernels = load()
    from .host_bench import Bench
    from .host_team import Team

    names = chosen(wanted)
    found: list[Outcome] = []
    with Team(cpus()) as team:
        bench = Bench(team, kernels, mode, len(names))
        for number, name in enumerate(names):
            if cancelled():
                break
            progress(name, number, len(names), None)
            outcomes = bench.measured(name)
            found += outcomes
            progress(name, number + 1, len(names), outcomes[0])
    return found


def version() -> str:
    """A short hash over the host's kernels and how they are timed."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("host_*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def compiler() -> str:
    """What compiles the kernels, or has them ready."""
    for package, name in (("numba", "numba"), ("numpy", "NumPy")):
        with suppress(PackageNotFoundError):
            return f"{name} {installed(package)}"
    return ""
