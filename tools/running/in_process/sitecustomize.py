"""Write the stacks of this process, which Python loads at its start, to a file of their own (watched_program.py).

A thread reads the stacks of the others whenever it gets the lock of the interpreter; faulthandler's watchdog, which
needs none, ended programs with a memory error. Whatever fails here leaves the program as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType


def _stack(frame: FrameType | None) -> list[tuple[str, str, int]]:
    """Return function, file and line of a frame and of its callers, the outermost first."""
    found: list[tuple[str, str, int]] = []
    while frame is not None:
        code = frame.f_code
        found.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return found[::-1]


def _sample() -> None:
    """Write a line for each thread whose stack is another one than at the last sample, until the process ends."""
    interval = 1 / int(os.environ["ROOFLENS_RATE"])
    last: dict[int, list[tuple[str, str, int]]] = {}
    numbers: dict[int | None, int | None] = {}
    path = Path(os.environ["ROOFLENS_STACKS"], f"{os.getpid()}.stacks")
    with contextlib.suppress(Exception), path.open("a", buffering=1, encoding="utf-8") as file:
        while True:
            time.sleep(interval)
            now = time.time_ns()
            numbers.update({thread.ident: thread.native_id for thread in threading.enumerate()})
            numbers[threading.main_thread().ident] = os.getpid()  # in a forked child, that of the parent would be left
            stacks = {thread: _stack(frame) for thread, frame in sys._current_frames().items()}
            stacks.pop(threading.get_ident())
            for thread in {*last, *stacks}:
                stack = stacks.get(thread, [])
                if stack != last.get(thread, []):
                    file.write(json.dumps([now, numbers.get(thread, thread), stack]) + "\n")
            last = stacks


def _begin() -> None:
    threading.Thread(target=_sample, daemon=True).start()


with contextlib.suppress(Exception):
    _begin()
    os.register_at_fork(after_in_child=_begin)
    # The module of this name that the program has itself.
    sys.path.remove(str(Path(__file__).parent))
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError:
        sys.modules[__name__] = own
