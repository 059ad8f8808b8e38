"""Behaves as ncu 2025.3.1 was measured to on an H200 when a run of it must end; measures nothing.

A script starts the program ``ncu``, which starts a helper that lies beside it, which starts the profiled program.
- The program ends, by SIGTERM too: ncu writes its page of all launches until then and ends with the program's status.
- ncu itself gets SIGTERM: its page stays empty, and it ends with 143.
- The helper gets a signal: nothing more happens.
- With --export the page goes into that file, and the log tells the launches as they come; --import prints such a file.
The program says by lines "LAUNCH name" on its standard output that it launches a kernel.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HELPER = "TreeLauncherSubreaper"


def install(folder: Path) -> str:
    """Put it into ``folder`` as ncu is laid out; the path of the script to start."""
    target = folder / "nsight-compute" / "target"
    target.mkdir(parents=True)
    for name in ("ncu", HELPER):
        shutil.copy(os.path.realpath(sys.executable), target / name)
    script = folder / "bin" / "ncu"
    script.parent.mkdir()
    home = f"export PYTHONHOME={sys.base_prefix} LD_LIBRARY_PATH={sys.base_prefix}/lib"
    # No exec: a script that stays above the program is the harder case.
    script.write_text(f'#!/bin/bash\n{home}\n{target}/ncu {__file__} "$@"\n')
    script.chmod(0o755)
    return str(script)


def _ncu(words: list[str]) -> int:
    if "--import" in words:
        source, page = (os.path.expandvars(words[words.index(option) + 1]) for option in ("--import", "--log-file"))
        shutil.copy(source, page)
        return 0
    end = words.index("--")
    options, program = words[:end], words[end + 1 :]
    log = Path(os.path.expandvars(options[options.index("--log-file") + 1]))
    log.write_text("")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    helper = subprocess.Popen(
        [str(Path("/proc/self/exe").readlink().with_name(HELPER)), __file__, *program],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert helper.stdout
    launches = []
    for line in helper.stdout:
        word, _, name = line.strip().partition(" ")
        if word != "LAUNCH":
            print(line, end="", flush=True)
            continue
        launches.append(name)
        if "--csv" not in options:
            number = f" - {len(launches) - 1} ({len(launches)}/9)"
            print(f'==PROF== Profiling "{name[:29]}"{number}: 0%....50%....100% - 20 passes', flush=True)
    status = helper.wait()
    if status < 0 or "--hang" in options:
        time.sleep(600)
    page = [f"==PROF== Connected to process {helper.pid}", "==PROF== Disconnected from process"]
    if status:
        page.append(f"==ERROR== The application returned an error code ({status}).")
    report = options[options.index("--export") + 1] if "--export" in options else log
    Path(os.path.expandvars(report)).write_text(
        "\n".join([*page, *(f'"{i}","{name}"' for i, name in enumerate(launches))])
    )
    return status


def _helper(program: list[str]) -> int:
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "LD_LIBRARY_PATH")}
    status = subprocess.run(program, env=outside).returncode
    return abs(status)


if __name__ == "__main__":
    me = Path("/proc/self/exe").readlink().name
    sys.exit(_ncu(sys.argv[1:]) if me == "ncu" else _helper(sys.argv[1:]))
