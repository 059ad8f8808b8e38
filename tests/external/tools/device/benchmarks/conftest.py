"""HIP's libraries where the distribution has them, under the names that hip-python looks for."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def hip_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's HIP: its hiprtc is part of libamdhip64, and it has no library of that name."""
    found = sorted(Path("/usr/lib/x86_64-linux-gnu").glob("libamdhip64.so.*"))
    if not found:
        pytest.skip("needs Debian's HIP runtime: apt-get install libamdhip64-dev libhiprtc-builtins5 rocm-device-libs")
    folder = tmp_path / "lib"
    folder.mkdir()
    for name in ("libamdhip64.so", "libhiprtc.so"):
        (folder / name).symlink_to(found[0])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
