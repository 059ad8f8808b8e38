"""A stand-in for ncu that runs the program of tests/standins/cupti and writes the page of what ncu would measure of it.

Not NVIDIA's, and it measures nothing: see ncu_filters.py. ``python ncu.py OPTIONS -- program LAUNCHES HOW``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

AXPY = "_Z4axpyIfLi4EEvPT_S0_f"
COUNTED = {"gpu__time_duration.sum": "5000"}


def _filters() -> ModuleType:
    path = Path(__file__).with_name("ncu_filters.py")
    spec = importlib.util.spec_from_file_location("ncu_filters", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["ncu_filters"] = module
    spec.loader.exec_module(module)
    return module


def install(folder: Path) -> str:
    """Put it into ``folder`` as a program."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "ncu"
    # A process is recognised as the profiler by the name of its script.
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({__file__!r}, run_name='__main__')\n")
    script.chmod(0o755)
    return str(script)


def launches(filters: ModuleType, count: int) -> list[object]:
    """What program.c launches, in its order, with the ranges around each launch."""
    step, inner = {filters.DEFAULT: ("step",)}, {filters.DEFAULT: ("step", "inner\033[31m")}
    return [
        filters.Launch(AXPY, step, grid=1024, block=256),
        *(filters.Launch(AXPY, inner, grid=512 if i % 2 else 1024, block=128) for i in range(count)),
        filters.Launch("backward", elsewhere=step, grid=8, block=64),
        filters.Launch("after", grid=1, block=32),
    ]


def main(words: list[str]) -> int:
    """ncu, as far as it is used here."""
    filters = _filters()
    if words == ["--help"]:
        print(" ".join([*filters._WITH_VALUE, *filters._ALONE]))
        return 0
    if words == ["--version"]:
        print("Version 2025.3.1.0 (build 36398880)")
        return 0
    options = filters._options(["ncu", *words])
    page = Path(options["--log-file"][0])
    if report := options.get("--import"):
        shutil.copy(report[0], page)
        return 0
    program = words[words.index("--") + 1 :]
    made = launches(filters, int(program[1]))
    report = options.get("--export")
    if report:
        numbers = filters.measured(["ncu", *words], made)
        page.write_text(
            "".join(
                f'==PROF== Profiling "{made[n].kernel}" - {i} ({i + 1}/{len(numbers)}): 0%....50%....100% - 4 passes\n'
                for i, n in enumerate(numbers)
            )
        )
    # A program can go on for long after its last measured launch.
    more = ["sh", "-c", '"$@"; exec sleep "$STANDIN_NCU_GOES_ON"', "sh"] if "STANDIN_NCU_GOES_ON" in os.environ else []
    status = subprocess.run([*more, *program], check=False).returncode
    text = filters.page(["ncu", *words], made, COUNTED)
    if report:
        # It writes no reports: what has none of ncu's sections is a page, which the file's name must not contradict.
        Path(report[0]).with_suffix(".csv" if "--section" in options else ".ncu-rep").write_text(text)
    else:
        page.write_text(text)
    return 15 if status == -signal.SIGTERM else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
