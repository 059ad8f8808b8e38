"""Files that have nothing but stacks of the host: which of them is read, and the profile that it makes."""

from __future__ import annotations

from pathlib import Path

from ....analysis.base.problems import BadInput
from ....analysis.base.text import count_text
from ..merging.contract import PassTable
from ..reader import Profile, ProfileFiles
from .recording import HostRecording


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
