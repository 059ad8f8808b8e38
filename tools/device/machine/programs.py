"""Finding a program and asking it something, within a time and an amount of output."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .model import Roots
from .sysfs import clean

_OUTPUT_BYTES = 1 << 18
_POLL_S = 0.1
_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "ROCM_PATH", "ROCM_HOME", "CUDA_HOME")
"""What a program may see of our environment: nothing that could hold a secret."""


@dataclass(frozen=True)
class ProgramAnswer:
    """How a program ended. ``failure`` says in words why there is no exit status."""

    code: int | None
    out: str = ""
    err: str = ""
    failure: str = ""

    @property
    def complaint(self) -> str:
        """One line about what went wrong, or an empty string after a success."""
        if self.failure or self.code == 0:
            return self.failure
        lines = [line for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        said = f": {clean(lines[0], 200)}" if lines else ""
        return f"ended with status {self.code}{said}"


def find(name: str, roots: Roots, places: tuple[str, ...] = ()) -> list[Path]:
    """Every copy of a program: those of the search path first, then those of ``places``, newest release first.

    ``places`` are patterns of folders below ``roots.base``. Two paths that lead to one file count once.
    """
    search = os.environ.get("PATH", "") if roots.search is None else roots.search
    # A relative entry would run a program out of whatever folder the server was started in.
    folders = [Path(entry) for entry in search.split(os.pathsep) if entry.startswith("/")]
    for place in places:
        folders += sorted(roots.base.glob(place), key=lambda p: natural_sort_key(str(p)), reverse=True)
    if roots.site is not None:
        folders.append(roots.site / "_rocm_sdk_core" / "bin")
    copies: dict[Path, Path] = {}
    for folder in folders:
        path = folder / name
        if os.access(path, os.X_OK) and path.is_file():
            copies.setdefault(path.resolve(), path)
    return list(copies.values())


def ask(argv: list[str], timeout_s: float) -> ProgramAnswer:
    """Run a program that should answer at once, with no input, a bare environment and no shell.

    It never waits longer than about ``timeout_s`` seconds: the whole process group is killed then, and a program
    that not even that ends (a driver that hangs in the kernel) is left behind.
    """
    env = {k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | {"LC_ALL": "C.UTF-8"}
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return ProgramAnswer(None, failure=f"cannot be started ({error.strerror or error})")
    texts, failure = _collect(child, time.monotonic() + timeout_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        code = child.wait(1)
    except subprocess.TimeoutExpired:
        code = None
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    out, err = (bytes(text).decode("utf-8", "replace") for text in texts)
    if failure == "time":
        return ProgramAnswer(None, out, err, f"did not answer within {timeout_s:g} s")
    if failure == "output":
        return ProgramAnswer(None, out, err, "answered with more than it should")
    return ProgramAnswer(code, out, err, "" if code is not None else "did not end")


def _collect(child: subprocess.Popen[bytes], deadline: float) -> tuple[tuple[bytearray, bytearray], str]:
    """Standard output and error until the child ended, and "time" or "output" where a limit came first."""
    texts = (bytearray(), bytearray())
    with selectors.DefaultSelector() as waiting:
        for pipe, text in zip((child.stdout, child.stderr), texts, strict=True):
            if pipe is not None:
                waiting.register(pipe, selectors.EVENT_READ, text)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return texts, "time"
            # A grandchild can keep the pipes open: what counts is that the child ended and nothing more comes.
            ended = _has_ended(child.pid)
            if not waiting.get_map():
                if ended:
                    return texts, ""
                time.sleep(min(remaining, _POLL_S / 10))
                continue
            ready = waiting.select(0 if ended else min(remaining, _POLL_S))
            if ended and not ready:
                return texts, ""
            for key, _ in ready:
                piece = os.read(key.fd, 65_536)
                if not piece:
                    waiting.unregister(key.fileobj)
                key.data.extend(piece)
            if max(map(len, texts)) > _OUTPUT_BYTES:
                return texts, "output"


def _has_ended(pid: int) -> bool:
    """Whether a child ended; it is not reaped, so that its process group cannot be another's when it is killed."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        # Somebody else reaped it, as when the process that embeds us ignores SIGCHLD.
        return True


def natural_sort_key(text: str) -> list[tuple[int, str]]:
    """A sort key that orders rocm-6.10 after rocm-6.9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]
