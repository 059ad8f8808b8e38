"""Read reports (.ncu-rep) with NVIDIA's library in a child process."""

from __future__ import annotations

import importlib.util
import io
import re
import signal
import time
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

from ....analysis.base.extensions import install_command
from ....analysis.base.problems import LimitExceeded, MissingTool, command_advice
from ...base import size_limits
from ...base.profile_files import head, is_gzip, open_regular, open_text
from ...base.untrusted_text import plain_text
from ...device.machine.model import Roots
from ...device.machine.profilers import PROGRAMS
from ...device.machine.programs import find
from ...isolation.child import Child, ChildBug, ChildLost
from ...isolation.limits import Limits
from ..merging.wording import refusal
from ..parsing.protobuf import WireError, message_types, parse
from .pages import NcuPage, read_pages

MAGIC = b"NVR\x00"
_HEADER_LIMIT = 64 << 20


def is_cut(path: Path) -> bool:
    """Return whether a report ends within a block or has an empty block; False for an unknown layout."""
    size = path.stat().st_size
    with open_regular(path) as file:
        file.seek(len(MAGIC))
        first = True
        while (at := file.tell()) < size:
            length = int.from_bytes(file.read(4), "little")
            if length > _HEADER_LIMIT:
                return False
            if not length:  # also in the gaps of a file that was not written completely
                return True
            if file.tell() + length > size or at + 4 > size:
                return True
            try:
                payload = int(
                    parse(message_types(Path(__file__).with_suffix(".toml"))["Header"], file.read(length)).payload
                )
            except WireError:
                return False
            file.seek(0 if first else payload, io.SEEK_CUR)
            first = False
        return file.tell() > size


SUFFIX = ".ncu-rep"
_TOO_LONG = "too long"
_WAIT_FACTOR = 2.0
"""Time to wait for a report, as a multiple of its limit of CPU time."""
_VERSION = re.compile(rb"(20\d\d\.\d+\.\d+)(?:\.\d+)? \(build \d+\)")
_BLOCK = 1 << 20
_EXPORT = command_advice(
    "On a machine with Nsight Compute, write a page and import that",
    "ncu --import {} --csv --page raw --print-units base > page.csv",
)


def is_report(path: Path) -> bool:
    """Return whether ``path`` is a report file, plain or gzip, by its name or its first bytes."""
    return path.name.endswith((SUFFIX, f"{SUFFIX}.gz")) or head(path, len(MAGIC)) == MAGIC


def read_report(
    source: Path, folder: Path, stem: str, *, mangled: bool = False
) -> tuple[NcuPage, Path | None, Path | None]:
    """Read the launches of a report into files in ``folder``, with mangled or readable kernel names.

    Return its launches as a raw page, and files with metrics per instruction and with source text if it has them.
    Raises MissingTool without the package ncu-report, BadInput for a damaged report or one without launches, and
    LimitExceeded if reading takes too long for its size.
    """
    from . import report_worker

    export = _EXPORT.format(source.name.removesuffix(".gz"))
    if head(source, len(MAGIC)) != MAGIC:
        raise refusal("no_report", file=source)
    plain = source
    if is_gzip(source):
        plain = folder / f"{stem}_unpacked{SUFFIX}"
        with open_text(source) as packed, plain.open("wb") as target:
            while block := packed.read(_BLOCK):
                target.write(block)
    if is_cut(plain):
        raise refusal("cut_report", file=source, export=export)
    library = library_folder(Roots())
    if library is None:
        raise MissingTool(
            f"{source.name} needs the package ncu-report",
            "it is not installed",
            f"{command_advice('Install it', install_command('ncu-report'))}\n{export}",
        )
    page_file, code, text = (folder / f"{stem}_{what}.csv" for what in ("report", "code", "text"))
    outcome = _read_in_child(plain, (page_file, code, text), library, mangled=mangled)
    problem, message = outcome["problem"], plain_text(outcome["said"], 200)
    if problem == report_worker.NO_PACKAGE:
        raise MissingTool(f"{source.name} needs the package ncu-report", f"it could not be loaded: {message}", export)
    if problem == report_worker.NO_LAUNCHES:
        raise refusal("empty_report", file=source, export=export)
    if problem == _TOO_LONG:
        raise LimitExceeded(
            f"{source.name} took more than {_limit_s(plain):.0f} s to read", "that is too long for its size", export
        )
    if problem:
        raise refusal("damaged_report", file=source, why=message or "the library that reads it failed", export=export)
    page = read_pages(page_file, folder, f"{stem}_rows")[0]
    page_file.unlink()
    page.source = source
    return page, code if code.exists() else None, text if text.exists() else None


def _limit_s(source: Path) -> float:
    """Return the CPU seconds that reading a report may take."""
    asked = size_limits.patience_s(source.stat().st_size, size_limits.REPORT_PATIENCE_S, size_limits.REPORT_BYTES_PER_S)
    return min(asked, size_limits.REPORT_MOST_S)


def version_of(source: Path) -> str | None:
    """Return the version of ncu that wrote a report, as the report states it."""
    with open_text(source) as file:
        tail = b""
        while block := file.read(_BLOCK):
            if match := _VERSION.search(tail + block):
                return match[1].decode()
            tail = block[-64:]
    return None


def _read_in_child(source: Path, files: tuple[Path, Path, Path], package: Path, *, mangled: bool) -> dict[str, Any]:
    """Return the answer of the child process about a report; a damaged report can only crash the child."""
    from .report_worker import NO_REPORT, write_page

    limit_s, size = _limit_s(source), source.stat().st_size
    file_bytes = size_limits.REPORT_PAGE + size_limits.REPORT_PAGE_RATIO * size
    child_limits = Limits(size_limits.REPORT_MEMORY, ceil(limit_s), file_bytes)
    page, code, text = map(str, files)
    job = {"report": str(source), "page": page, "code": code, "text": text, "package": str(package), "mangled": mangled}
    try:
        with Child(write_page, job, child_limits, time.monotonic() + _WAIT_FACTOR * limit_s) as child:
            return child.receive()
    except TimeoutError:
        return {"problem": _TOO_LONG, "said": ""}
    except ChildLost as lost:
        return {"problem": _TOO_LONG if lost.status == -signal.SIGXCPU else NO_REPORT, "said": ""}
    except ChildBug as bug:
        # The library raises arbitrary exceptions for files that it cannot read.
        return {"problem": NO_REPORT, "said": str(bug).strip().splitlines()[-1]}


_NAME = "ncu_report"
_EXTRAS = "extras/python"
"""Relative to the folder of ncu."""
_WRAPPED = "nsight-compute-*/extras/python"
"""Relative to a toolkit whose bin/ncu is a script that starts the real program."""


def library_folder(roots: Roots) -> Path | None:
    """Return the folder to add to the module search path; None if the library is not installed."""
    spec = importlib.util.find_spec(_NAME)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent.parent
    return next((place for place in _candidates(roots) if (place / f"{_NAME}.py").is_file()), None)


def _candidates(roots: Roots) -> Iterator[Path]:
    places = PROGRAMS["ncu"].places
    for program in find("ncu", roots, places):
        real = program.resolve()
        yield real.parent / _EXTRAS
        yield from sorted(real.parent.parent.glob(_WRAPPED), reverse=True)
