"""What the profiler's library does inside the profiled program: read its variables, count, write files at the end."""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import devices, extra, write_csv, write_json, write_rocpd
from .launches import Launch, launch, over_limit, recorded
from .result import Counted, Process, Range, Traced
from .setting import Setting

LAUNCHES = "ROOFLENS_STANDIN_LAUNCHES"
"""Folder into which a program may write PID.jsonl: a line per launch. Without any, the setting's launches happened."""
_COPY = 1_000_001
"""Correlation id of the copy that every process makes first; launches and ranges have small ones."""
_RANKS = ("PBS_NODENUM", "SLURM_PROCID", "PMI_RANK", "MV2_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "MPI_RANK")
_SIZES = ("PBS_O_TASKNUM", "SLURM_NTASKS", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_SIZE")


def profile(setting: Setting, env: dict[str, str], app: list[str]) -> int:
    """Run the program once and write what it launched; its status, negative for a signal as in subprocess."""
    folder = Path(env["ROCPROF_OUTPUT_PATH"])
    asked = _asked(env)
    lost = setting.has("unknown", folder)
    groups = [_counters(setting, group, env.get("ROCPROF_EXTRA_COUNTERS_CONTENTS"), lost=lost) for group in asked]
    for group in groups:
        over = over_limit({slot for counter in group for slot in counter.slots})
        if over or setting.has("refused", folder):
            return _over(setting, env, app, [c.name for c in group])
    if env.get("ROCPROF_KERNEL_REPLAY") == "1":
        groups = [list({c.name: c for group in groups for c in group}.values())]
    with tempfile.TemporaryDirectory(prefix="standin-") as work:
        child = subprocess.Popen(app, env={**env, LAUNCHES: work})
        status = child.wait()
        launched = launched_in(setting, Path(work), child.pid)
    if status < 0:
        return status
    for number, (pid, launches) in enumerate(launched.items()):
        process = _process(setting, env, app, pid, os.getpid() if number == 0 else child.pid, launches, groups)
        _write(setting, env, folder, process)
    return status


def attached(setting: Setting, env: dict[str, str], pid: int) -> int:
    """Attach to a process that listens, stay for as long as asked, and let it write what it launched meanwhile."""
    place = Path("/proc") / str(pid)
    if not place.is_dir():
        raise extra.Refused(f"no process {pid}")
    if b"ROCP_TOOL_ATTACH=1" not in (place / "environ").read_bytes().split(b"\0"):
        sys.stderr.write(
            f"E rocattach.cpp] process {pid} has no rocp-bg-attach thread: start it with ROCP_TOOL_ATTACH=1\n"
        )
        return 1
    time.sleep(int(env["ROCPROF_ATTACH_DURATION"]) / 1000)
    definitions = env.get("ROCPROF_EXTRA_COUNTERS_CONTENTS")
    groups = [_counters(setting, group, definitions, lost=False) for group in _asked(env)]
    words = (place / "cmdline").read_bytes().decode().split("\0")[:-1]
    folder = Path(os.path.realpath(place / "cwd")) / env["ROCPROF_OUTPUT_PATH"]
    _write(setting, env, folder, _process(setting, env, words, pid, os.getpid(), list(setting.launches), groups))
    return 0


def listing(target: str) -> str:
    """The counters of the target, as ``--list-avail`` prints them."""
    names = [name for name in recorded(target) if not name.endswith("_ACCUM")]
    names += [f"{name}_sum" for name in names if name.startswith(("TCC_", "TCP_", "TA_", "TD_", "TCA_"))]
    return "GPU:0\nName:" + target + "\n" + "".join(f"Counter_Name        :\t{name}\n" for name in names)


def _asked(env: dict[str, str]) -> list[list[str]]:
    """Groups of counters: one of the variable for a run, or those that take turns or are replayed."""
    lines = [env.get("ROCPROF_COUNTERS", ""), *env.get("ROCPROF_COUNTER_GROUPS", "").splitlines()]
    groups = [re.findall(r"[^,\s]+", line.removeprefix("pmc:")) for line in lines]
    return [group for group in groups if group]


def _counters(setting: Setting, asked: list[str], definitions: str | None, *, lost: bool) -> list[extra.Counter]:
    """The counters that can be resolved; the others are left out with a warning, as the real library does."""
    defined = {}
    if definitions is not None:
        defined = extra.definitions(definitions, setting.target, nested=setting.version >= (1, 0, 0))
    found = [c for name in asked if (c := defined.get(name) or extra.plain(setting.target, name))]
    found = found[:-1] if lost else found
    names = [c.name for c in found]
    if len(names) < len(asked):
        sys.stderr.write(
            f"W{datetime.date.today():%Y%m%d} tool.cpp] Unable to find all counters for agent 1 (gpu-0, "
            f"{setting.target}) in [{', '.join(asked)}]. Found: [{', '.join(names)}]\n"
        )
    return found


def _over(setting: Setting, env: dict[str, str], app: list[str], names: list[str]) -> int:
    """More counters than registers: until mid-2026 an abort inside the program, since then an end before it."""
    reason = "failed with error code 38 :: Request exceeds the capabilities of the hardware to collect"
    if setting.version > (1, 0, 0):
        sys.stderr.write(f"E tool.cpp] Could not construct profile cfg for [{', '.join(names)}] {reason}\n")
        return 1
    child = subprocess.Popen(app, env=env, stdout=subprocess.DEVNULL)
    sys.stderr.write(f"F tool.cpp] Could not construct profile cfg {reason}\n*** Check failure stack trace: ***\n")
    child.send_signal(signal.SIGABRT)
    child.wait()
    return -signal.SIGABRT


def launched_in(setting: Setting, work: Path, pid: int) -> dict[int, list[Launch]]:
    """Launches of each process, the program's own first."""
    logs = sorted(work.glob("*.jsonl"), key=lambda p: (p.stem != str(pid), int(p.stem)))
    found = {}
    for log in logs:
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        found[int(log.stem)] = [launch(line.pop("kernel"), **line) for line in lines]
    return found or {pid: list(setting.launches)}


def _process(
    setting: Setting, env: dict[str, str], app: list[str], pid: int, ppid: int, launches: list[Launch],
    groups: list[list[extra.Counter]],
) -> Process:  # fmt: skip
    """What one process did: which launches are counted, and when each ran."""
    include, exclude = env.get("ROCPROF_KERNEL_FILTER_INCLUDE_REGEX"), env.get("ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX")
    wanted = _range(env.get("ROCPROF_KERNEL_FILTER_RANGE", ""))
    clock = time.monotonic_ns()
    init, seen, counted = clock - 50_000_000, {}, []
    calls = [Traced("hipMemcpy", _COPY, clock - 9000, clock)]
    copies = [Traced("MEMORY_COPY_HOST_TO_DEVICE", _COPY, clock - 8000, clock - 1000, 1 << 20)]
    ranges = _Ranges(named=env.get("ROCPROF_MARKER_TRACE") == "1", inherited=setting.version >= (1, 0, 0))
    interval, turns = int(env.get("ROCPROF_COUNTER_GROUPS_INTERVAL", "1")), 0
    for number, launched in enumerate(launches, 1):
        matches = (not include or re.search(include, launched.kernel)) and not (
            exclude and re.search(exclude, launched.kernel)
        )
        build = (launched.kernel, launched.code_object)
        iteration = seen[build] = seen.get(build, 0) + bool(matches)
        values = None
        if groups and matches and (not wanted or iteration in wanted):
            counters = groups[turns // interval % len(groups)]
            turns += 1
            dies = devices.xccs(setting.target)
            values = {c.name: c.value(setting.target, launched, dies) for c in counters}
        # Counting serialises launches and makes them slower.
        duration = launched.duration_ns + (launched.duration_ns // 10 if values is not None else 0) + 7 * number
        clock += 10
        correlation = ranges.enter(launched.within, clock)
        calls.append(Traced("hipLaunchKernel", correlation, clock, clock + 5))
        clock += 10
        counted.append(Counted(number, launched, clock, clock + duration, values, correlation))
        clock += duration + 5000
    ranges.enter((), clock)
    calls.append(Traced("hipDeviceSynchronize", _COPY + 1, clock - 5000, clock))
    name = env.get("ROCPROF_OUTPUT_FILE_NAME") or "%hostname%/%pid%"
    return Process(
        pid=pid, ppid=ppid, host=socket.gethostname(), command=app, target=setting.target, init=init, fini=clock,
        prefix=_expand(name, env, pid, ppid), launches=counted, environment=env,
        tracing=env.get("ROCPROF_KERNEL_TRACE") == "1", counters=[c.name for group in groups for c in group],
        ranges=ranges.ended, calls=calls if env.get("ROCPROF_HIP_RUNTIME_TRACE") == "1" else [],
        copies=copies if env.get("ROCPROF_MEMORY_COPY_TRACE") == "1" else [],
        sampling=env.get("ROCPROF_PC_SAMPLING_METHOD", ""),
    )  # fmt: skip


class _Ranges:
    """The ranges of the program's one thread, and the correlation ids that they and launches get.

    From 1.0 on a launch has the id of the innermost range around it; before, each call had an id of its own.
    """

    def __init__(self, *, named: bool, inherited: bool) -> None:
        self.named, self.inherited = named, inherited
        self.ended: list[Range] = []
        self._open: list[tuple[str, int, int]] = []
        self._last = 0

    def enter(self, within: tuple[str, ...], now: int) -> int:
        """Pop and push until these are open; the correlation id of a launch now."""
        if self.named:
            kept = 0
            while kept < min(len(within), len(self._open)) and within[kept] == self._open[kept][0]:
                kept += 1
            for name, correlation, start in reversed(self._open[kept:]):
                self.ended.append(Range(name, correlation, start, now))
            self._open = self._open[:kept]
            for name in within[kept:]:
                self._last += 1
                self._open.append((name, self._last, now))
            if self._open and self.inherited:
                return self._open[-1][1]
        self._last += 1
        return self._last


def _range(text: str) -> set[int]:
    """Iterations of each matching kernel, from 1: ``[1-2],[5]``."""
    chosen: set[int] = set()
    for part in re.findall(r"[^\[\],\s]+", text):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not found or not int(found[1]):
            raise extra.Refused(f"kernel_iteration_range {text!r} is no list of iterations from 1")
        chosen |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    return chosen


def _expand(name: str, env: dict[str, str], pid: int, ppid: int) -> str:
    """Placeholders of a file name; one that is not known is refused, where the real library leaves it as it is."""
    rank = next((env[v] for v in _RANKS if v in env), None)
    known = {
        "hostname": socket.gethostname(), "pid": str(pid), "ppid": str(ppid), "rank": rank or "0",
        "size": next((env[v] for v in _SIZES if v in env), "1"), "nid": rank or str(pid),
        "job": env.get("SLURM_JOB_ID", "0"), "cwd": str(Path.cwd()), "launch_date": f"{datetime.date.today()}",
    }  # fmt: skip
    text = re.sub(r"%(?:env|q)\{(\w+)\}%?", lambda m: env.get(m[1], ""), name)
    text = re.sub(r"%(\w+)%", lambda m: known.get(m[1], m[0]), text)
    if "%" in text:
        raise extra.Refused(f"placeholder that the stand-in does not know: {text!r}")
    return text


def _write(setting: Setting, env: dict[str, str], folder: Path, process: Process) -> None:
    """Every format asked for."""
    base = folder / process.prefix
    base.parent.mkdir(parents=True, exist_ok=True)
    for kind in dict.fromkeys(env["ROCPROF_OUTPUT_FORMAT"].split(",")):
        if kind == "csv":
            write_csv.write(base, process, setting.version)
        elif kind == "json":
            write_json.write(base, process)
        elif kind == "rocpd":
            write_rocpd.write(base, process)
        else:
            raise extra.Refused(f"the stand-in does not write {kind}")
