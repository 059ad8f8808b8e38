"""The one logger: stderr, levels, and a line for every tool call that tells its cost and never its contents."""

from __future__ import annotations

import logging
import sys
from typing import Any

from ...analysis.base.text import shorten, visible, visible_lines

logger = logging.getLogger("rooflens")


_LONGEST, _LONGEST_TRACE = 2_000, 20_000


class _LineFormatter(logging.Formatter):
    """A record as one line, and its traceback: nothing in it steers a terminal or looks like another record."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = shorten(visible(record.message), _LONGEST)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return shorten(visible_lines(super().formatException(ei)), _LONGEST_TRACE)


def start(verbose: int = 0) -> None:
    """Log to stderr: warnings and errors; with ``verbose`` 1 every tool call too, with 2 everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG))


def log_call(tool: str, seconds: float, outcome: str, size: int) -> None:
    """One line for one tool call: how long it took, how it ended, and the characters of its answer.

    ``outcome`` is ok or the class of the problem.
    """
    logger.info("%s %s in %.3f s, %d characters", tool, outcome, seconds, size)
