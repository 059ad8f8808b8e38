"""Source pages and reports of ncu become samples and instructions; damaged and hostile ones are refused or bounded."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tools.import_profile import ImportResult, import_profile
from rooflens.tools.profiles.ncu import code

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
    return [[hex(base), LOAD, 0, 64, 0, 0, 0, 0], [hex(base + 16), ADD, samples, 64, samples - 8, 8, samples - 10, 0]]


def imported(tmp_path: Path, text: str | bytes, name: str = "page.csv") -> tuple[Store, ImportResult]:
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    store = Store(tmp_path / "store")
    return store, import_profile(store, str(file))


def rows(store: Store, table: str, columns: str) -> list[tuple[Any, ...]]:
    with Workload.open(store, "latest") as opened:
        return opened.rows(f"SELECT {columns} FROM {opened.relation(table)} ORDER BY ALL")


def test_absurd_cells_are_no_counts(tmp_path: Path) -> None:
    cells = ["9" * 400, "-5", "nan", "1e999", "٣", "", "x" * 10_000, "0x"]
    hostile = [[hex(16 * i), ADD, cell, cell, cell, cell, cell, cell] for i, cell in enumerate(cells)]
    hostile += [[cell, ADD, 1, 1, 1, 1, 1, 1] for cell in ("0x" + "f" * 300, "zz", "-1")]
    store, found = imported(tmp_path, page(("k" * 100_000, [*hostile, *block(base=0x1000)])))
    assert found.samples == 50
    assert {row[0] for row in rows(store, "instructions", "executed")} <= {None, 64}


def test_a_kernel_of_endless_instructions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "MOST_INSTRUCTIONS", 1)
    with pytest.raises(BadInput, match="more than 1 instructions"):
        imported(tmp_path, page(("k", block())))


def test_report_and_page_of_the_same_run_agree(shared: Path, labelled: Store, tmp_path: Path) -> None:
    text = gzip.decompress((shared / "source_lines" / "ncu_source_page.csv.gz").read_bytes()).decode()
    blocks = text.split('"Kernel Name",')
    small = '"Kernel Name",'.join(block for block in blocks if not block.startswith('"spill_local'))
    page_store, _ = imported(tmp_path, small)
    of_samples = "split_part(kernel, '(', 1), \"offset\", stall_reason, stall_raw, issued, sum(count)"
    of_code = (
        "split_part(kernel, '(', 1), \"offset\", instruction, class, waits_for, target, spill, executed, lanes, "
        "lanes_active, sectors_global, sectors_global_ideal, wavefronts_lds, wavefronts_lds_ideal"
    )
    found = []
    for store in (labelled, page_store):
        with Workload.open(store, "latest") as opened:
            samples, instructions = opened.relation("samples"), opened.relation("instructions")
            only = "WHERE kernel NOT LIKE 'spill%'"
            counted = opened.rows(f"SELECT {of_samples} FROM {samples} {only} GROUP BY ALL ORDER BY ALL")
            known = opened.rows(f"SELECT {of_code} FROM {instructions} {only} AND executed > 0 ORDER BY 1, 2")
            found.append((counted, known))
    (report_samples, report_code), (page_samples, page_code) = found
    assert report_samples == page_samples and len(report_samples) > 1_000
    assert len(report_code) > 400
    assert [(a, b) for a, b in zip(report_code, page_code, strict=True) if a != b] == []


@pytest.mark.parametrize("moved", [0, 0x10_0000_0000])
def test_code_has_the_same_name_wherever_it_was_loaded(moved: int) -> None:
    base = 0x7F_0000_1000 + moved
    rows = [
        code.ListedInstruction(base, f"@P0 BRA {hex(base + 0x20)}", None, None, {}, {}),
        code.ListedInstruction(base + 16, "MOV R1, c[0x0][0x28]", None, None, {}, {}),
    ]
    assert code._code_name(rows) == "69ccfac4e0ba"
