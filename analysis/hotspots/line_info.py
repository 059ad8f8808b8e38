"""Code without line information: the compiler flag that brings it, by how a kernel was built."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..base.kernel_names import short
from ..base.notes import Note
from ..store.manifest import Manifest

CODE = "no_lines"
"""Of the notes."""
_KERNEL_CHARS, _COMMAND_CHARS = 400, 2000
"""Of a name and a command line that patterns look at."""
_WORTH_PCT = 1.0
"""Share of all samples below which nobody needs to know."""
_PAGE = Note(
    CODE,
    "This page of ncu states no source lines: import the report (.ncu-rep) that it was printed from, which has them "
    "where the program was built with them.",
)


@dataclass(frozen=True)
class Way:
    """One way of building kernels, and what gives them lines."""

    built: str
    do: str
    source: str
    vendor: str = ""
    kernel: str = ""
    """Pattern of kernel names; empty: any."""
    command: str = ""
    """Pattern of command lines; empty: any."""

    def fits(self, vendor: str, kernel: str, command: str) -> bool:
        """Whether a kernel of a program was probably built like this."""
        return (
            self.vendor in ("", vendor)
            and re.search(self.kernel, kernel[:_KERNEL_CHARS]) is not None
            and re.search(self.command, command[:_COMMAND_CHARS]) is not None
        )


@cache
def ways() -> tuple[Way, ...]:
    """All ways, the most particular first."""
    return tuple(Way(**way) for way in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["way"])


def advice(manifest: Manifest, lacking: Mapping[str, float], launches: int) -> list[Note]:
    """What to do about kernels without lines: one note for each way of building, that with most samples first.

    ``lacking`` is kernel -> its share of the samples without a line, in per cent; what is below one per cent is left
    out. Without ``launches`` a profile of ncu is a text page. Nothing for a vendor that no way is known for.
    """
    worth = {kernel: share for kernel, share in lacking.items() if share >= _WORTH_PCT}
    if worth and not launches and manifest.format == "ncu":
        return [_PAGE]
    vendor, command = manifest.vendor or "", manifest.command or ""
    shares: dict[Way, dict[str, float]] = {}
    for kernel, share in sorted(worth.items(), key=lambda item: (-item[1], item[0])):
        way = next((way for way in ways() if way.fits(vendor, kernel, command)), None)
        if way is not None:
            shares.setdefault(way, {})[kernel] = share
    ordered = sorted(shares.items(), key=lambda item: -sum(item[1].values()))
    return [Note(CODE, f"{_unlined_text(kernels)} (built by {way.built}). {way.do}") for way, kernels in ordered]


def _unlined_text(kernels: Mapping[str, float]) -> str:
    first = short(next(iter(kernels)))
    more = f" and {len(kernels) - 1} more kernels" if len(kernels) > 1 else ""
    return f"{sum(kernels.values()):.0f} % of the samples have no source line: {first}{more}"
