"""Stand-in for rocprofv2: one run and one folder pmc_N per ``pmc:`` line; one row per launch and XCC."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import devices
from .launches import Launch, event_of, is_event, over_limit, split
from .library import LAUNCHES, launched_in
from .rocprof_v1 import counted
from .setting import Setting

_FLAGS = ("--basenames", "--hip-api", "--hip-activity", "--hip-trace", "--hsa-api", "--hsa-activity", "--hsa-trace",
          "--roctx-trace", "--kernel-trace", "--sys-trace", "-ns", "--no-serialization")  # fmt: skip
_VALUES = {"-i": "input", "--input": "input", "-o": "name", "--output-file-name": "name", "-d": "folder",
           "--output-directory": "folder", "--plugin": "plugin", "--plugin-version": "plugin_version",
           "-fi": "flush", "--flush-interval": "flush", "-tp": "period", "--trace-period": "period",
           "-m": "metrics"}  # fmt: skip


def main(setting: Setting, argv: list[str]) -> int:
    """``rocprofv2 [options] app``; ends with the status of the first run that failed."""
    options: dict[str, str] = {}
    while argv and argv[0].startswith("-"):
        option = argv[0]
        if option in ("-h", "--help"):
            print(f"rocprofv2 (stand-in, not AMD's program): {' '.join((*_FLAGS, *_VALUES))}")
            return 1
        if option == "--version":
            print("ROCProfiler version: 2.0")
            return 0
        if option in _FLAGS:
            options[option], argv = "on", argv[1:]
        elif option in _VALUES and len(argv) > 1:
            options[_VALUES[option]], argv = argv[1], argv[2:]
        else:
            print(f'Wrong option "{option}", Please use the following options:')
            return 1
    if not argv:
        return 1
    groups, kernel = [[]], ""
    if "input" in options:
        if not os.access(options["input"], os.R_OK):
            print(f'Error: "{options["input"]}" doesn\'t exist!')
            return 1
        groups, kernel = _input(Path(options["input"]))
    if "folder" not in options and "name" not in options:
        sys.stderr.write("stand-in: without -d and -o rocprofv2 writes no file\n")
    for number, group in enumerate(groups, 1):
        folder = Path(options.get("folder", "."))
        folder = folder / f"pmc_{number}" if group else folder
        if status := _run(setting, group, kernel, folder, options.get("name"), argv):
            return status
    return 0


def _run(setting: Setting, group: list[str], kernel: str, folder: Path, name: str | None, app: list[str]) -> int:
    if missing := [counter for counter in group if not is_event(setting.target, counter)]:
        sys.stderr.write(f"rocprofiler: metric {missing[0]} is not known for {setting.target}\n")
        return 134
    if over_limit({event_of(counter) for counter in group}) or setting.has("refused", folder):
        sys.stderr.write("rocprofiler: ROCPROFILER_STATUS_ERROR_PROFILE_EXCEEDS_HW_LIMIT\n")
        return 134
    with tempfile.TemporaryDirectory(prefix="standin-") as work:
        child = subprocess.Popen(app, env={**os.environ, LAUNCHES: work})
        status = child.wait()
        found = launched_in(setting, Path(work), child.pid)
    if status:
        return status
    folder.mkdir(parents=True, exist_ok=True)
    for pid, launches in found.items():
        text = _table(setting, group, kernel, pid, launches)
        (folder / f"results_{name or pid}.csv").write_text(text, encoding="utf-8")
    return 0


def _table(setting: Setting, group: list[str], kernel: str, pid: int, launches: list[Launch]) -> str:
    # Without the variable a launch has one row with the sums over the XCCs.
    dies = devices.xccs(setting.target) if os.environ.get("ROCPROFILER_INDIVIDUAL_XCC_MODE") == "1" else 1
    header = ["Dispatch_ID", "GPU_ID", "Queue_ID", "PID", "TID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup",
              "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR", "Wave_Size", "Kernel_Name",
              "Start_Timestamp", "End_Timestamp", "Correlation_ID", *(["XCC_Index"] if dies > 1 else []),
              *group]  # fmt: skip
    lines, clock = [",".join(header)], time.monotonic_ns()
    for index, launched in enumerate(launches, 1):
        end = clock + launched.duration_ns
        if not kernel or kernel in launched.kernel:
            values = {k: split(v, dies) for k, v in counted(setting, group, launched).items()}
            for die in range(dies):
                row = [index, 1, launched.queue, pid, pid, launched.items, launched.group_size, launched.lds,
                       launched.scratch, launched.vgpr, launched.agpr, launched.sgpr, 64,
                       f'"{launched.kernel} [clone .kd]"', clock, end, 0, *([die] if dies > 1 else []),
                       *(f"{values[name][die]:.6f}" for name in group)]  # fmt: skip
                lines.append(",".join(map(str, row)))
        clock = end + 9000
    return "\n".join(lines) + "\n"


def _input(path: Path) -> tuple[list[list[str]], str]:
    groups, kernel = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if "kernel:" in line:
            kernel = line.split("kernel:", 1)[1].strip()
        elif "pmc" in line and not line.lstrip().startswith("#"):
            groups.append(line.split(":", 1)[1].split())
        elif line.strip():
            sys.exit(f"stand-in: line that rocprofv2 would pass over: {line!r}")
    return groups or [[]], kernel
