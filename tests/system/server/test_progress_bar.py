"""Progress on a terminal: one line that fits, shows what is done, and is gone at the end; nothing anywhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from rooflens.tests.support.waiting import END_S

WORK = """
import sys
from rooflens.server.terminal import progress_bar
from rooflens.tools.base import progress
progress._INTERVAL_S, progress_bar._QUIET_S = 0.0, {quiet}
with progress_bar.show_progress():
    for i in range(5):
        progress.report({words!r}, {share})
print("done")
"""


def on_a_terminal(code: str, columns: int) -> str:
    """What a terminal of that width gets on stderr; the output goes elsewhere."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, text=True, timeout=END_S)
    os.close(slave)
    got = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the end of a pseudo-terminal
            break
        if not part:
            break
        got += part
    os.close(master)
    assert (done.returncode, done.stdout) == (0, "done\n")
    return got.decode()


@pytest.mark.parametrize("columns", [80, 5, 0])
def test_hostile_words_are_one_line_that_fits_steers_no_terminal_and_is_cleared(columns: int) -> None:
    words = "\x1b[2J\x1b]0;title\x07a\nb\r\tc\u202ed {desc} {x} % %s" + "a_long_name" * 20
    told = on_a_terminal(WORK.format(words=words, share="0.2 * i", quiet=0.0), columns)
    assert not [character for character in "\n\x1b\x07\u202e" if character in told]
    assert columns != 80 or "d {desc} {x} % %s" in told
    frames = told.split("\r")
    assert len(frames) > 4, "it was shown"
    assert max(map(len, frames)) < (columns or 80), "no frame wraps"
    assert frames[-1].strip() == "" and frames[-2].strip() == "", "and it is gone"


def test_a_share_is_a_bar_and_words_alone_are_none() -> None:
    with_share = on_a_terminal(WORK.format(words="step two", share="0.2 * i", quiet=0.0), 100)
    assert re.search(r"60 % \|#+ +\| \d\d:\d\d step two", with_share)
    without = on_a_terminal(WORK.format(words="step two", share=None, quiet=0.0), 100)
    assert "step two" in without and "|" not in without and "%" not in without


def test_a_log_gets_plain_lines_now_and_then() -> None:
    code = WORK.format(words="read\x1b[2J it", share="0.2 * i", quiet=0.0)
    code = code.replace("with ", "progress_bar._LOG_QUIET_S, progress_bar._LOG_EVERY_S = 0.0, 0.3\nimport time\nwith ")
    code = code.replace("    progress.report", "    time.sleep(0.1); progress.report")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=END_S)
    lines = done.stderr.splitlines()
    assert done.stdout == "done\n" and 1 <= len(lines) <= 2
    assert re.fullmatch(r"0 s   0 % read it", lines[0])


def test_quick_work_shows_nothing_and_loads_nothing_in_a_script() -> None:
    assert "quick" not in on_a_terminal(WORK.format(words="quick", share=0.5, quiet=1e9), 80)
    code = WORK.format(words="a", share=0.5, quiet=0.0) + "print('tqdm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=END_S)
    assert (done.stdout, done.stderr) == ("done\nFalse\n", "")
