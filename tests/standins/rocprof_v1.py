"""Stand-in for rocprof (v1): the arguments of its shell script, one run per ``pmc:`` line, one CSV for all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .launches import Launch, block_of, channels, count, event_of, is_event, over_limit, recorded, split
from .library import LAUNCHES, launched_in
from .setting import Setting

_SWITCHES = ("--basenames", "--timestamp", "--ctx-wait", "--obj-tracking", "--cmd-qts", "--trace-start")
_VALUES = ("-i", "-o", "-d", "-t", "-m", "--ctx-limit", "--heartbeat", "--trace-period", "--flush-rate", *_SWITCHES)
_FLAGS = ("--stats", "--roctx-trace", "--hsa-trace", "--sys-trace", "--hip-trace", "--verbose", "--parallel-kernels")


@dataclass
class Input:
    """A .txt file: groups of counters and filters over the launches."""

    groups: list[list[str]]
    ranges: tuple[int, int] | None = None
    kernels: tuple[str, ...] = ()

    def takes(self, index: int, launched: Launch) -> bool:
        """Whether the launch of this number, from 0, is kept; a range excludes its end."""
        inside = self.ranges is None or self.ranges[0] <= index < self.ranges[1]
        return inside and (not self.kernels or any(name in launched.kernel for name in self.kernels))


def main(setting: Setting, folder: Path, argv: list[str]) -> int:
    """``rocprof [options] app``; the status of the program, or 1."""
    if not shutil.which("rocminfo"):
        _error("'rocminfo' utility is not found: please add ROCM bin path to PATH env var.")
    options: dict[str, str] = {}
    if argv == ["--version"]:
        print(f"ROCm version: {(folder / '.info' / 'version').read_text().strip()}\nROCProfiler version: 2.0")
        return 0
    while argv and argv[0].startswith("-"):
        option = argv[0]
        if option == "-h":
            print(f"rocprof (stand-in, not AMD's program): {' '.join(_VALUES + _FLAGS)}")
            return 1
        if option in _FLAGS:
            options[option], argv = "on", argv[1:]
        elif option in _VALUES and len(argv) > 1:
            if option in _SWITCHES and argv[1] not in ("on", "off"):
                _error(f"{option} takes on or off, not {argv[1]!r}")
            options[option], argv = argv[1], argv[2:]
        else:
            _error(f"Wrong option '{option}'")
    if not argv:
        _error("no application")
    output = Path(options.get("-o", f"{Path(options.get('-i', 'results')).stem}.csv"))
    if output.suffix != ".csv":
        print("error: file name must have .CSV extension")
        return 1
    wanted = _input(Path(options["-i"])) if "-i" in options else Input([[]])
    timed = options.get("--timestamp") == "on" or "--stats" in options
    return _runs(setting, wanted, output, argv, timed=timed, stats="--stats" in options)


def _runs(setting: Setting, wanted: Input, output: Path, app: list[str], *, timed: bool, stats: bool) -> int:
    table: dict[int, dict[str, str]] = {}
    status = 0
    output.unlink(missing_ok=True)
    for group in wanted.groups:
        for name in group:
            if not is_event(setting.target, name):
                sys.stderr.write(f"Metric '{name}' not found\n")
                print("Profiling error found: 'metric not found'")
                return 1
        if over_limit(_slots(group)) or setting.has("refused", output):
            print("Profiling error found: 'too many counters of one block in a group'")
            return 1
        # The script joins the arguments in double quotes and evaluates the line: a shell reads them again.
        line = " ".join(f'"{arg}"' for arg in app)
        with tempfile.TemporaryDirectory(prefix="standin-") as work:
            child = subprocess.Popen(["/bin/bash", "-c", line], env={**os.environ, LAUNCHES: work})
            status = child.wait()
            found = launched_in(setting, Path(work), child.pid)
        for pid, launches in found.items():
            _fill(setting, table, wanted, group, pid, launches, timed=timed)
    if not table:
        print("Profiling data corrupted: ''")
        return 1
    if not output.parent.is_dir():
        print(f"Profiling data corrupted: no folder '{output.parent}'")
        return 1
    _write(output, table)
    if stats:
        text = subprocess.run(["rocminfo"], capture_output=True, text=True, check=True).stdout
        output.with_suffix(".sysinfo.txt").write_text(f"CMD: rocminfo\n{text}", encoding="utf-8")
    return max(status, 0)


def _slots(group: list[str]) -> set[str]:
    return {event_of(name) for name in group}


def _fill(
    setting: Setting, table: dict[int, dict[str, str]], wanted: Input, group: list[str], pid: int,
    launches: list[Launch], *, timed: bool,
) -> None:  # fmt: skip
    clock = time.monotonic_ns()
    for index, launched in enumerate(launches):
        end = clock + launched.duration_ns
        if wanted.takes(index, launched):
            row = table.setdefault(index, _fixed(index, pid, launched))
            row |= {name: f"{value:.10f}" if name.endswith("_sum") else f"{value:.0f}"
                    for name, value in counted(setting, group, launched).items()}  # fmt: skip
            if timed:
                times = (clock - 3000, clock, end, end + 2000)
                row |= dict(zip(("DispatchNs", "BeginNs", "EndNs", "CompleteNs"), map(str, times), strict=True))
        clock = end + 9000


def counted(setting: Setting, group: list[str], launched: Launch) -> dict[str, float]:
    """Values of a group: brackets pick an instance, SQ_ACCUM_PREV_HIRES integrates the level counter before it."""
    values, level = {}, ""
    for name in group:
        event = event_of(name)
        if event.startswith("SQ_ACCUM_PREV"):
            value = count(setting.target, f"{level}_ACCUM", launched) if level else 0.0
        else:
            value = count(setting.target, event, launched)
            level = event if f"{event}_ACCUM" in recorded(setting.target) else level
        if found := re.search(r"\[(\d+)\]$", name):
            value = split(value, channels(setting.target) if block_of(event) in ("TCC", "TCA") else 4)[int(found[1])]
        values[name] = value
    return values


def _fixed(index: int, pid: int, launched: Launch) -> dict[str, str]:
    facts = {
        "gpu-id": 1, "queue-id": launched.queue - 1, "queue-index": index, "pid": pid, "tid": pid,
        "grd": launched.items, "wgr": launched.group_size, "lds": launched.lds, "scr": launched.scratch,
        "arch_vgpr": launched.vgpr, "accum_vgpr": launched.agpr, "sgpr": launched.sgpr, "wave_size": 64,
        "sig": "0x0", "obj": f"{0x7F0000000000 + len(launched.kernel):#x}",
    }  # fmt: skip
    name = f"{launched.kernel} [clone .kd]"
    return {"Index": str(index), "KernelName": f'"{name}"'} | {k: str(v) for k, v in facts.items()}


def _write(output: Path, table: dict[int, dict[str, str]]) -> None:
    """Times come last, whichever group brought them; names are the only quoted cells."""
    late = ("DispatchNs", "BeginNs", "EndNs", "CompleteNs")
    columns = [c for c in dict.fromkeys(c for row in table.values() for c in row) if c not in late]
    columns += [c for c in late if c in next(iter(table.values()))]
    lines = [",".join(columns), *(",".join(table[i].get(c, "None") for c in columns) for i in sorted(table))]
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _input(path: Path) -> Input:
    """Lines ``pmc:``, ``range:``, ``kernel:`` and ``gpu:``; anything else is refused."""
    if path.suffix != ".txt":
        _error(f"Bad input file type '{path}'")
    wanted = Input([])
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.split("#")[0].strip()
        if not text:
            continue
        found = re.fullmatch(r"(pmc|range|kernel|gpu)\s*:\s*(.+)", text)
        if not found:
            _error(f"line that rocprof would pass over: {line!r}")
        words = re.split(r"[,\s]+", found[2].strip())
        if found[1] == "pmc":
            wanted.groups.append(words)
        elif found[1] == "kernel":
            wanted.kernels = tuple(words)
        elif found[1] == "range":
            ends = re.fullmatch(r"(\d+)\s*(?::\s*(\d+)?)?", found[2].strip())
            if not ends:
                _error(f"range: {found[2]!r}")
            first = int(ends[1])
            last = int(ends[2]) if ends[2] else (10**9 if ":" in found[2] else first + 1)
            wanted.ranges = (first, last)
    wanted.groups = wanted.groups or [[]]
    return wanted


def _error(message: str) -> NoReturn:
    print(f"rocprof: Error: {message}")
    sys.exit(1)
