"""The logger, which writes to stderr: a line for every tool call has its cost, but never its contents."""

from __future__ import annotations

import logging
import sys
from typing import Any

from ...analysis.base.text import shorten, visible, visible_lines

logger = logging.getLogger("rooflens")


_LONGEST, _LONGEST_TRACE = 2_000, 20_000


class _LineFormatter(logging.Formatter):
    """Format a record as one line, then its traceback, without terminal sequences or lines that look like records."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = shorten(visible(record.message), _LONGEST)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return shorten(visible_lines(super().formatException(ei)), _LONGEST_TRACE)


def start(verbose: int = 0) -> None:
    """Log warnings and errors to stderr; with ``verbose`` 1 also every tool call, with 2 everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG))


def log_call(tool: str, seconds: float, outcome: str, size: int) -> None:
    """Log one tool call: its time in seconds, its outcome, and the number of characters of its answer.

    ``outcome`` is ok or the class of the problem.
    """
    logger.info("%s %s in %.3f s, %d characters", tool, outcome, seconds, size)
