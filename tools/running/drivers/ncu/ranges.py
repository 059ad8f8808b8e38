"""Ranges of the program (NVTX) as filters of ncu: the expressions of --nvtx-include.

Sources: NVIDIA's Nsight Compute CLI manual, "NVTX Filtering" and "Command Line Options"; what its text leaves open (a
name in two forms, quantifiers within names) was tried with NVIDIA's own library for reports, which reads the same
expressions (tests/tools/profiles/ncu/test_ranges.py).
"""

from __future__ import annotations

import re

from .....analysis.base.problems import BadArgument
from ....base.untrusted_text import plain_text
from ....profiles.cupti.ranges import LONGEST_NAME
from ...range_filter import RangeFilter, RangePath

_QUANTIFIER = re.compile(r"[@,\[\]/*+]")
_OTHER = "Rename the range, or leave range out and select after the profile (dispatches.range_id)"


def options(within: RangeFilter, *, whole_process: bool) -> list[str]:
    """The arguments that hold ncu to a range; ``whole_process`` says whether it knows --nvtx-push-pop-scope.

    BadArgument for a name that its expressions cannot hold.
    """
    scope = ["--nvtx-push-pop-scope", "process"] if whole_process and within.one_thread else []
    filters = dict.fromkeys(text for chain in within.chains for text in expressions(chain))
    return ["--nvtx", *scope, *(word for text in filters for word in ("--nvtx-include", text))]


def expressions(chain: RangePath) -> list[str]:
    """A launch matches if it does any: the range pushed (a slash behind a single name tells that), or started."""
    domain = "" if chain.domain is None else f"{_escape(chain.domain)}@"
    names = [_escape(name) for name in chain.names]
    pushed = "/".join(names) if len(names) > 1 else f"{names[0]}/"
    return [domain + pushed, domain + names[-1]]


def _escape(name: str) -> str:
    """A name in which nothing is a quantifier; BadArgument for those that ncu cannot be told."""
    if why := _why_not_expressible(name):
        raise BadArgument(f"ncu cannot be held to the range {plain_text(name, 80)!r}", why, _OTHER)
    return _QUANTIFIER.sub(lambda found: "\\" + found[0], name)


def _why_not_expressible(name: str) -> str:
    if not name:
        return "a range without a name cannot be filtered by"
    if "\\" in name:
        return "a backslash in a name cannot be told from one that quotes"
    if name.startswith("@"):
        return "an @ at its beginning would end the name of a domain"
    if name.startswith("regex:"):
        return "what begins with regex: is read as a regular expression"
    if name.startswith("-"):
        return "what begins with a dash is read as an option"
    if "\0" in name or len(name) >= LONGEST_NAME:
        return f"the recording keeps {LONGEST_NAME} characters of a name, and its filter needs all"
    return ""
