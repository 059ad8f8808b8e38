"""Puts the stand-in into a folder laid out like a ROCm installation, ready to be found on a PATH."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from . import devices
from .options import VERSIONS

_SCRIPT = """#!{python} -IS
# Stand-in for rocprofv3, written for tests; not AMD's program.
import sys
sys.path += {folders!r}
from pathlib import Path
from standins.programs import start
sys.exit(start(Path({folder!r}), sys.argv[1:]))
"""


def install(
    folder: Path, *, version: str = "1.0.0", target: str = "gfx90a", trouble: str = "",
    launches: list[dict[str, Any]] | None = None,
) -> Path:  # fmt: skip
    """The stand-in below ``folder``; returns the folder of programs.

    ``version`` is that of rocprofv3, one of ``options.VERSIONS``. ``trouble`` is one of ``setting.TROUBLES``.
    ``launches`` are arguments of ``launches.launch``.
    """
    assert version in VERSIONS and target in devices.TARGETS
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / ".info").mkdir(exist_ok=True)
    (folder / ".info" / "version").write_text(f"{VERSIONS[version]}-1\n", encoding="utf-8")
    facts: dict[str, Any] = {"version_text": version, "target": target, "trouble": trouble}
    if launches is not None:
        facts["launches"] = launches
    (folder / "standin.json").write_text(json.dumps(facts), encoding="utf-8")
    # Without the packages of site, which take long to find: only the one that is needed.
    folders = [str(Path(module).resolve().parents[1]) for module in (__file__, yaml.__file__)]
    script = folder / "bin" / "rocprofv3"
    script.write_text(_SCRIPT.format(python=sys.executable, folders=folders, folder=str(folder)), encoding="utf-8")
    script.chmod(0o755)
    return folder / "bin"


def machine(base: Path, target: str = "gfx90a") -> Path:
    """A tree that stands in for / on a machine with one GPU: the kernel driver's topology and the device files."""
    for path, text in devices.topology(target).items():
        file = base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return base
