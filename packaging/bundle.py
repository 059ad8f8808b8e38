"""Packs a wheel into an MCP bundle: python packaging/bundle.py dist/rooflens-VERSION.whl rooflens.mcpb

A bundle is a zip file with manifest.json and the server. This one contains the wheel and a project that depends only on
it; uv, which the host provides, installs both with their dependencies. The same wheel always gives the same bundle,
byte for byte.
"""

from __future__ import annotations

import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest timestamp that a zip file can store."""


def project(wheel: str) -> str:
    """The pyproject.toml of the bundle."""
    about = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return (
        f'[project]\nname = "{about["name"]}-bundle"\nversion = "{about["version"]}"\n'
        f'requires-python = "{about["requires-python"]}"\ndependencies = ["{about["name"]}"]\n\n'
        f'[tool.uv]\npackage = false\n\n[tool.uv.sources]\n{about["name"]} = {{ path = "{wheel}" }}\n'
    )


def pack(wheel: Path, bundle: Path) -> None:
    """Write ``bundle`` with ``wheel`` in it, replacing an existing file."""
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
        sys.exit(f"{__doc__}\nA wheel is required: `make dist` builds it.")
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {Path(sys.argv[2]).stat().st_size / 1e6:.1f} MB")
