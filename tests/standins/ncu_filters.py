"""Which launches ncu would measure: its filters as NVIDIA's manual describes them, applied to a list of launches.

Not NVIDIA's, and it measures nothing. Options that it does not know are refused. From the Nsight Compute CLI manual:
"NVTX Filtering" for expressions, "Command Line Options" for --kernel-name, --filter-mode, --launch-skip, --launch-count
and --nvtx-push-pop-scope. The manual does not say whether launches outside of a range count for --launch-skip: they do
here, which is the worse case for whoever relies on it.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT = "<default domain>"
_WITH_VALUE = (
    "--metrics", "--replay-mode", "--cache-control", "--clock-control", "--target-processes", "--filter-mode",
    "--launch-skip", "--launch-count", "--kernel-name-base", "--print-kernel-base", "--kernel-name", "--page",
    "--print-units", "--log-file", "--nvtx-include", "--nvtx-push-pop-scope", "--export", "--import",
    "--section", "--import-source",
)  # fmt: skip
_ALONE = ("--nvtx", "--csv", "--disable-extra-suffixes", "--force-overwrite")


@dataclass(frozen=True)
class Launch:
    """A launch, and the ranges (domain -> names) that are open when it happens."""

    kernel: str
    pushed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of its own thread, the outermost first."""
    started: Mapping[str, Sequence[str]] = field(default_factory=dict)
    elsewhere: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Pushed by other threads."""
    grid: int = 8
    block: int = 64


def measured(argv: Sequence[str], launches: Sequence[Launch]) -> list[int]:
    """The numbers of the launches that ncu with these arguments measures; ValueError for what it would refuse."""
    given = _options(argv)
    (pattern,) = given.get("--kernel-name", ["regex:"])
    skip, count = (
        int(given.get(name, [least])[0]) for name, least in (("--launch-skip", "0"), ("--launch-count", "-1"))
    )
    apart = given.get("--filter-mode") == ["per-launch-config"]
    include = given.get("--nvtx-include", [])
    if include and "--nvtx" not in given:
        raise ValueError("NVTX filtering requires --nvtx")
    process = given.get("--nvtx-push-pop-scope") == ["process"]
    seen: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    numbers = []
    for number, launch in enumerate(launches):
        if not re.search(pattern.removeprefix("regex:"), launch.kernel):
            continue
        key = f"{launch.kernel} {launch.grid} {launch.block}" if apart else ""
        seen[key] += 1
        if seen[key] <= skip or taken[key] == count:
            continue
        if include and not any(matches(text, launch, process=process) for text in include):
            continue
        taken[key] += 1
        numbers.append(number)
    return numbers


def page(argv: Sequence[str], launches: Sequence[Launch], values: Mapping[str, str]) -> str:
    """The page of the launches that are measured; others than ``values`` are the number of a launch from 1."""
    metrics = _options(argv)["--metrics"][0].split(",")
    out = io.StringIO()
    write = csv.writer(out, quoting=csv.QUOTE_ALL)
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC"]  # fmt: skip
    write.writerow([*head, *metrics])
    write.writerow([""] * (len(head) + len(metrics)))
    for i, number in enumerate(measured(argv, launches)):
        one = launches[number]
        sizes = [f"({one.block}, 1, 1)", f"({one.grid}, 1, 1)"]
        own = [str(i), "100", "app", "node", one.kernel, "1", "7", *sizes, "0", "9.0"]
        write.writerow([*own, *(values.get(metric, str(number + 1)) for metric in metrics)])
    return out.getvalue()


def matches(text: str, launch: Launch, *, process: bool = False) -> bool:
    """Whether a launch is within what one expression of --nvtx-include names."""
    letters = _letters(text)
    domain = DEFAULT
    if "@" in (marks := [mark for mark, _ in letters]):
        at = marks.index("@")
        domain, letters = "".join(letter for _, letter in letters[:at]), letters[at + 1 :]
    marks = [mark for mark, _ in letters]
    if not set(marks) & set("/[]"):
        return all(name in launch.started.get(domain, ()) for name in _names(letters, ","))
    stacks = [launch.pushed.get(domain, ())] + [launch.elsewhere.get(domain, ())] * process
    bottom, top = marks[0] == "[", marks[-1] == "]"
    wanted = _names([one for one in letters if one[0] not in ("[", "]")], "/")
    return any(_within(wanted, list(stack), bottom=bottom, top=top) for stack in stacks)


def _letters(text: str) -> list[tuple[str, str]]:
    """(Quantifier or nothing, letter); a backslash makes a quantifier a letter."""
    found, quoted = [], False
    for letter in text:
        if letter == "\\" and not quoted:
            quoted = True
            continue
        found.append(("" if quoted or letter not in "@,[]/*+" else letter, letter))
        quoted = False
    return found


def _names(letters: list[tuple[str, str]], delimiter: str) -> list[tuple[str, str]]:
    """(Quantifier or nothing, name) between delimiters; one at the end delimits nothing."""
    parts: list[list[tuple[str, str]]] = [[]]
    for mark, letter in letters:
        if mark == delimiter:
            parts.append([])
        else:
            parts[-1].append((mark, letter))
    names = [(p[0][0] if len(p) == 1 else "", "".join(letter for _, letter in p)) for p in parts if p]
    return names if delimiter == "/" else [name for _, name in names]  # type: ignore[misc]


def _within(wanted: list[tuple[str, str]], stack: list[str], *, bottom: bool, top: bool) -> bool:
    def fits(names: list[tuple[str, str]], at: int) -> bool:
        if not names:
            return not top or at == len(stack)
        (mark, name), rest = names[0], names[1:]
        if mark == "*":
            return any(fits(rest, i) for i in range(at, len(stack) + 1))
        if at >= len(stack):
            return False
        return (mark == "+" or stack[at] == name) and fits(rest, at + 1)

    return any(fits(wanted, i) for i in range(1 if bottom else len(stack)) if i < len(stack))


def _options(argv: Sequence[str]) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    words = iter(argv[1:])
    for word in words:
        if word == "--":
            break
        if word in _WITH_VALUE:
            value = next(words)
            if value.startswith("-"):
                raise ValueError(f"the required argument for option '{word}' is missing")
            given.setdefault(word, []).append(value)
        elif word in _ALONE:
            given[word] = []
        else:
            raise ValueError(f"unrecognised option '{word}'")
    return given
