"""Read recordings without times: collapsed stacks (py-spy record --format raw, and others), speedscope, austin's text.

A line of collapsed stacks has the frames of one stack, the outermost first, and how often it was seen. py-spy writes
``name (file:line)``, austin ``file:name:line`` after the process and the thread; others write names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ....analysis.base.problems import BadInput
from ...base.profile_files import files_of_format, head, open_text
from ..parsing.json_stream import JsonCut, elements
from ..reader import Profile, ProfileFiles
from .files import UntimedSamples, host_profile, lines, one_file
from .recording import HostFrame

_SUFFIXES = (".txt", ".raw", ".folded", ".collapsed", ".austin")
_SPEEDSCOPE = b"speedscope.app/file-format-schema.json"
_HEAD = 1 << 16
_LINE = re.compile(r"(\S.*) (\d{1,18})")
_PLACE = re.compile(r"(?P<name>.+) \((?P<file>[^()]+?)(?::(?P<line>\d{1,9}))?\)")
_AUSTIN = re.compile(r"P(\d{1,9});T(?:\d{1,9}:)?(\w{1,40})(?:;(.*))?", re.DOTALL)
_AUSTIN_FRAME = re.compile(r"(?P<file>.+?):(?P<name>[^:]*):(?P<line>\d{1,9})")
_PROCESS = re.compile(r'process (\d{1,9}):"')
_THREAD = re.compile(r"thread \((\d{1,9})\)(?:: .*)?", re.DOTALL)
_SPEEDSCOPE_NAME = re.compile(r"(?:Process (\d{1,9}) )?Thread (\d{1,18})")
_NS = {"seconds": 1e9, "milliseconds": 1e6, "microseconds": 1e3, "nanoseconds": 1.0}


def detect(path: Path) -> bool:
    """Return whether ``path`` has collapsed stacks, or a folder has one such file."""
    return bool(_collapsed_files(path))


def detect_speedscope(path: Path) -> bool:
    """Return whether ``path`` is a file of speedscope, or a folder with one."""
    return bool(_speedscope_files(path))


def _collapsed_files(path: Path) -> list[Path]:
    return files_of_format(path, _SUFFIXES, _is_collapsed)


def _speedscope_files(path: Path) -> list[Path]:
    return files_of_format(path, (".json",), lambda file: _SPEEDSCOPE in head(file, _HEAD))


def _is_collapsed(file: Path) -> bool:
    """Return whether all complete lines at the beginning are stacks, and the first one has several frames."""
    first = head(file, _HEAD).decode("utf-8", "replace").splitlines()
    shown = [line for line in first[:20] if line.strip() and not line.startswith("#")][: max(1, len(first) - 1)]
    return bool(shown) and all(_LINE.fullmatch(line) for line in shown) and any(";" in line for line in shown)


def read(files: ProfileFiles) -> Profile:
    """Return the recording at ``files.path``; BadInput if a line is no stack."""
    if found := _speedscope_files(files.path):
        return _read_speedscope(files, one_file(files, found, "speedscope"))
    file = one_file(files, _collapsed_files(files.path), "collapsed stacks")
    samples, source = UntimedSamples(files), "collapsed"
    for number, text in enumerate(lines(file), 1):
        if not text.strip() or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            why = f"line {number} is not a stack with a number: {text[:80]!r}"
            raise BadInput(f"{file.name} does not have collapsed stacks", why)
        if austin := _AUSTIN.fullmatch(match[1]):
            source = "austin"
            stack = [_frame(_AUSTIN_FRAME, one) for one in (austin[3] or "").split(";") if one]
            samples.add(stack, pid=int(austin[1]), thread=_thread_number(austin[2]), time_ns=1000 * int(match[2]))
            continue
        texts = match[1].split(";")
        pid, thread, roots = _roots(texts)
        frames = [_frame(_PLACE, one) for one in texts[roots:]]
        source = "py-spy" if any(frame.file for frame in frames) else source
        samples.add(frames, pid=pid, thread=thread, samples=int(match[2]))
    return host_profile(file, samples.recording(source))


def _frame(form: re.Pattern[str], text: str) -> HostFrame:
    match = form.fullmatch(text)
    return HostFrame(match["name"], match["file"], int(match["line"] or 0)) if match else HostFrame(text)


def _thread_number(text: str) -> int | None:
    """Return a thread's number, which austin writes in hexadecimal or, in early versions, as an address."""
    try:
        return int(text, 16) & (1 << 62) - 1
    except ValueError:
        return None


def _roots(names: Iterable[str]) -> tuple[int | None, int | None, int]:
    """Return process, thread and the number of root frames, which py-spy's --subprocesses and --threads add."""
    pid = thread = None
    roots = 0
    for name in names:
        process, named = _PROCESS.match(name), _THREAD.fullmatch(name)
        if not (process or named):
            break
        pid = int(process[1]) if process else pid
        thread = int(named[1]) if named else thread
        roots += 1
    return pid, thread, roots


def _read_speedscope(files: ProfileFiles, file: Path) -> Profile:
    """Return a recording of speedscope: samples with weights, or begins and ends of frames."""
    frames: list[HostFrame] = []
    profiles: list[dict[str, Any]] = []
    exporter = ""
    try:
        with open_text(file) as stream:
            for path, value in elements(stream, lambda path: path in ((), ("shared",))):
                if path == ("shared", "frames"):
                    frames.append(
                        HostFrame(str(value["name"]), str(value.get("file") or ""), int(value.get("line") or 0))
                    )
                elif path == ("profiles",):
                    profiles.append(value)
                elif path == ("exporter",):
                    exporter = str(value)
        samples = UntimedSamples(files)
        for profile in profiles:
            named = _SPEEDSCOPE_NAME.match(str(profile["name"]))
            thread = int(named[2]) if named else None
            pid = int(named[1]) if named and named[1] else None
            unit = _NS.get(str(profile["unit"]))
            for stack, weight in _weights(profile):
                time = None if unit is None else round(weight * unit)
                own = [frames[at] for at in stack]
                *_, roots = _roots(frame.function for frame in own)
                samples.add(own[roots:], pid=pid, thread=thread, time_ns=time, samples=1)
    except (JsonCut, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise BadInput(f"{file.name} is damaged", f"it is not what speedscope exports: {error}") from error
    source = "py-spy" if exporter.startswith("py-spy") else "speedscope"
    return host_profile(file, samples.recording(source))


def _weights(profile: dict[str, Any]) -> Iterable[tuple[Sequence[int], float]]:
    """Yield the stacks of a profile as indexes of frames, the outermost first, with their weights."""
    if profile["type"] == "sampled":
        yield from zip(profile["samples"], profile["weights"], strict=True)
        return
    opened: list[int] = []
    at = float(profile["startValue"])
    for event in profile["events"]:
        if opened and event["at"] > at:
            yield tuple(opened), event["at"] - at
        at = event["at"]
        if event["type"] == "O":
            opened.append(event["frame"])
        elif opened:
            opened.pop()
