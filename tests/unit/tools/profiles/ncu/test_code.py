"""Hostile source pages of ncu are bounded, and code has one name."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tools.profiles.ncu import code

HEADER = ("Address", "Source", "# Samples", "Instructions Executed", "stall_long_sb", "stall_wait",
          "stall_long_sb (Not Issued)", "stall_wait (Not Issued)")  # fmt: skip
LOAD, ADD = "      LDG.E R5, desc[UR8][R4.64]", "      FADD R8, R8, R5"
SOUND = (["0x1000", LOAD, 0, 64, 0, 0, 0, 0], ["0x1010", ADD, 50, 64, 42, 8, 40, 0])


def load(bench, kernel, *rows):
    """A source page with one kernel, imported."""
    lines = [("Kernel Name", kernel), HEADER, *rows]
    text = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    (bench.folder / "page.csv").write_text(text, encoding="utf-8")
    return bench.load(bench.folder / "page.csv")


def test_absurd_cells_are_no_counts(bench):
    cells = ["9" * 400, "-5", "nan", "1e999", "٣", "", "x" * 10_000, "0x"]
    hostile = [[hex(16 * i), ADD, *[cell] * 6] for i, cell in enumerate(cells)]
    hostile += [[cell, ADD, *[1] * 6] for cell in ("0x" + "f" * 300, "zz", "-1")]
    done = load(bench, "k" * 100_000, *hostile, *SOUND)
    assert done.samples == 50
    assert set(bench.column(done, "instructions", "executed")) <= {None, 64}


def test_a_kernel_of_endless_instructions_is_refused(bench, monkeypatch):
    monkeypatch.setattr(code, "MOST_INSTRUCTIONS", 1)
    with pytest.raises(BadInput, match="more than 1 instructions"):
        load(bench, "k", *SOUND)


@pytest.mark.parametrize("moved", [0, 0x10_0000_0000])
def test_code_has_the_same_name_wherever_it_was_loaded(moved: int) -> None:
    base = 0x7F_0000_1000 + moved
    rows = [
        code.ListedInstruction(base, f"@P0 BRA {hex(base + 0x20)}", None, None, {}, {}),
        code.ListedInstruction(base + 16, "MOV R1, c[0x0][0x28]", None, None, {}, {}),
    ]
    assert code._code_name(rows) == "69ccfac4e0ba"
