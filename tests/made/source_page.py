"""Source pages of ncu: made up, a block of instructions for each kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflens.analysis.store.store import Store
from rooflens.tools.import_profile import ImportResult, import_profile

HEADER = ["Address", "Source", "# Samples", "Instructions Executed", "stall_long_sb", "stall_wait"]
HEADER += ["stall_long_sb (Not Issued)", "stall_wait (Not Issued)"]
LOAD, ADD = "      LDG.E R5, desc[UR8][R4.64]", "      FADD R8, R8, R5"


def page(*blocks: tuple[str, list[list[Any]]], header: list[str] | None = None) -> str:
    """A source page with a block per kernel."""
    lines = []
    for kernel, rows in blocks:
        lines += [["Kernel Name", kernel], header or HEADER, *rows]
    return "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)


def block(samples: int = 50, base: int = 0x7F0000001000) -> list[list[Any]]:
    """A load and an addition that waits for it."""
    return [[hex(base), LOAD, 0, 64, 0, 0, 0, 0], [hex(base + 16), ADD, samples, 64, samples - 8, 8, samples - 10, 0]]


def imported(tmp_path: Path, text: str | bytes, name: str = "page.csv") -> tuple[Store, ImportResult]:
    """A page in a store of its own."""
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    store = Store(tmp_path / "store")
    return store, import_profile(store, str(file))
