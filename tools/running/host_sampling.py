"""Sampling of the host's stacks while a program is recorded, by py-spy (sampled_program.py)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path

from .sampled_program import FACTS

FOLDER = "host"
"""The folder of the samples in that of a run, beside the results of the profiler."""
RATE = 100
"""Samples a second."""
_SCRIPT = Path(__file__).with_name("sampled_program.py")


def sampling_prefix(run: Path) -> tuple[str, ...]:
    """Return the arguments before a command that make it run under the sampler; none if py-spy is not installed.

    The samples go into the folder of the run, which is made here.
    """
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    sampler = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if sampler is None:
        (folder / FACTS).write_text(json.dumps({"refused": os.strerror(errno.ENOENT)}), encoding="utf-8")
        return ()
    return sys.executable, "-I", str(_SCRIPT), str(folder), sampler, str(RATE), "--"
