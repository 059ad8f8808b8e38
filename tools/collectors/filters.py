"""A kernel filter as the profilers take it: checked regular expressions, or parts of names for those without."""

from __future__ import annotations

import re

from ...analysis.problems import BadArgument
from .steps import Request

_PYTHON_ONLY = re.compile(r"\(\?(?!:|=|!)|\\[AZzpPNg]|\*\+|\+\+|\?\+")
_PARTS = re.compile(r"\w+(\|\w+)*")
_LONGEST = 1000


def checked_pattern(request: Request, profiler: str) -> str | None:
    """The regular expression on kernel names, which Python and the C++ library of the profilers read alike.

    Raises BadArgument for what is no such expression: the profiler would abort in the middle of the program.
    """
    pattern = request.kernel
    if pattern is None:
        return None
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadArgument(f"kernel={pattern[:80]!r} is no regular expression", str(error)) from error
    if not pattern or len(pattern) > _LONGEST or not pattern.isprintable():
        raise BadArgument(
            f"kernel={pattern[:80]!r} cannot be used",
            f"it must be visible text of 1 to {_LONGEST} characters",
            "Leave kernel out to count every kernel",
        )
    if found := _PYTHON_ONLY.search(pattern):
        raise BadArgument(
            f"{profiler} does not understand {found[0]!r} in kernel={pattern[:80]!r}",
            "it reads regular expressions as ECMAScript does",
            "Write it without inline flags, named groups, look-behind and possessive repeats",
        )
    return pattern


def name_parts(request: Request, profiler: str) -> list[str]:
    """The parts of kernel names that old rocprof filters by; BadArgument where the expression is more than that."""
    pattern = checked_pattern(request, profiler)
    if pattern is None:
        return []
    if not _PARTS.fullmatch(pattern):
        raise BadArgument(
            f"{profiler} cannot filter by kernel={pattern[:80]!r}",
            "it knows parts of names only, no regular expressions",
            "Give one word or words joined by |, or leave kernel out and select kernels after the import",
        )
    return pattern.split("|")


def checked_launches(request: Request) -> tuple[int, int] | None:
    """The first and last launch to count; BadArgument where they are no range from 1."""
    if request.launches is None:
        return None
    first, last = request.launches
    if not 1 <= first <= last < 2**31:
        raise BadArgument(
            f"launches={first}-{last} is no range",
            "launches count from 1, and the last is not before the first",
            "Give [first, last], such as [2, 4]",
        )
    return first, last


def refuse(request: Request, profiler: str, *fields: str) -> None:
    """BadArgument where the request states one of ``fields``, which this profiler has nothing for."""
    if stated := [name for name in fields if getattr(request, name) is not None]:
        raise BadArgument(
            f"{profiler} cannot restrict a profile by {' and '.join(stated)}",
            "it has no such option",
            f"Leave {' and '.join(stated)} out and select after the import",
        )


def refuse_kernel_replay(request: Request, profiler: str) -> None:
    """BadArgument where the caller wants single kernels replayed by a profiler that runs the whole program anew."""
    if request.replay == "kernel":
        raise BadArgument(
            f"{profiler} cannot replay single kernels", "it runs the program once for each pass", "Leave replay out"
        )


def left_out_notes(left: dict[str, str]) -> list[str]:
    """Counters that are left out, told once for each reason."""
    return [
        f"Left out: {', '.join(c for c, r in left.items() if r == reason)}: {reason}."
        for reason in dict.fromkeys(left.values())
    ]
