"""Packs an MCP bundle around a wheel: python packaging/bundle.py dist/rooflens-VERSION.whl rooflens.mcpb

A bundle is a zip of manifest.json and what it starts. This one holds the wheel itself and a project that depends on
it alone; uv, which the host brings, installs both with what they need. The same wheel gives the same bundle, byte for
byte.
"""

from __future__ import annotations

import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can state."""


def project(wheel: str) -> str:
    """The pyproject.toml of the bundle."""
    about = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return (
        f'[project]\nname = "{about["name"]}-bundle"\nversion = "{about["version"]}"\n'
        f'requires-python = "{about["requires-python"]}"\ndependencies = ["{about["name"]}"]\n\n'
        f'[tool.uv]\npackage = false\n\n[tool.uv.sources]\n{about["name"]} = {{ path = "{wheel}" }}\n'
    )


def pack(wheel: Path, bundle: Path) -> None:
    """Write ``bundle`` around ``wheel``; one that is there is replaced."""
    parts = {
        "manifest.json": (HERE / "mcpb" / "manifest.json").read_bytes(),
        "main.py": (HERE / "mcpb" / "main.py").read_bytes(),
        "pyproject.toml": project(wheel.name).encode(),
        wheel.name: wheel.read_bytes(),
    }
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not Path(sys.argv[1]).is_file():
        sys.exit(f"{__doc__}\nThere has to be one wheel: `make dist` builds it.")
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {Path(sys.argv[2]).stat().st_size / 1e6:.1f} MB")
