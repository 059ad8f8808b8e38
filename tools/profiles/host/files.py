"""Files that have nothing but stacks of the host: which of them is read, and the profile that it makes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ...base import progress
from ...base.profile_files import open_text
from ..merging.contract import PassTable, parquet
from ..parsing.spool import Spool
from ..reader import Profile, ProfileFiles
from .recording import SAMPLES, HostClock, HostFrame, HostRecording, StackSpool

_OFTEN = 20_000
_BLOCK, _LONGEST = 1 << 20, 1 << 22
_LARGEST = 1 << 62


def one_file(files: ProfileFiles, fitting: list[Path], program: str) -> Path:
    """Return the only file of a program, or the file itself, whose reading tells what is wrong; else BadInput."""
    fitting = files.or_itself(fitting)
    if len(fitting) != 1:
        what = count_text(len(fitting), f"recording of {program}", f"recordings of {program}")
        raise BadInput(f"{files.path.name} contains {what}", fix="Give one file")
    return fitting[0]


def host_profile(file: Path, recording: HostRecording) -> Profile:
    """Return a profile that has nothing but the stacks of the host."""
    return Profile(
        name=file.name.split(".")[0],
        vendor=None,
        tool=recording.source,
        passes=[PassTable("main", file)],
        stacks=recording,
    )


def lines(file: Path) -> Iterator[str]:
    """Yield the lines of a text file, without their ends; BadInput if one of them is endless."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    with open_text(file) as stream:
        rest = ""
        while block := stream.read(_BLOCK):
            *whole, rest = (rest + decode(block)).split("\n")
            yield from (line.rstrip("\r") for line in whole)
            if len(rest) > _LONGEST:
                raise BadInput(f"{file.name} has a line of more than {_LONGEST:,} characters", "that is no recording")
        if rest:
            yield rest


class UntimedSamples:
    """Samples of which nothing is known but how often a stack was seen, or for how long."""

    def __init__(self, files: ProfileFiles) -> None:
        self._stacks = StackSpool(files.con, files.work / "untimed")
        self._samples = Spool(files.con, files.work / "untimed_samples", SAMPLES)
        self._functions_only = True
        self._file = files.path.name

    def add(
        self,
        frames: Iterable[HostFrame],
        *,
        pid: int | None = None,
        thread: int | None = None,
        time_ns: int | None = None,
        samples: int | None = None,
    ) -> None:
        """Add samples of one stack; those without frames are left out."""
        if any(value is not None and abs(value) >= _LARGEST for value in (pid, thread, time_ns, samples)):
            raise BadInput(f"{self._file} is damaged", "it has a number that no recording has", "Record again")
        stack = tuple(frames)
        self._functions_only = self._functions_only and not any(frame.line for frame in stack)
        if number := self._stacks.number(stack):
            self._samples.append((None, None, time_ns, samples, pid, thread, number, None))
            if not self._samples.rows % _OFTEN:
                progress.report(f"read {count_text(self._samples.rows, 'stack')} of {self._file}")

    def recording(self, source: str, *limits: str) -> HostRecording:
        """Return what was added, as a recording by ``source``; BadInput if there is nothing."""
        if not self._samples.rows:
            raise BadInput(f"{self._file} contains no stacks", "nothing was sampled", "Record a longer run")
        more = ["host_functions_only"] if self._functions_only else []
        more += ["host_idle_unknown"] if source == "py-spy" else []
        samples = f"SELECT * FROM {parquet(self._samples.close())}"
        return HostRecording(source, self._stacks.close(), samples, HostClock(), ["host_no_times", *more, *limits])
