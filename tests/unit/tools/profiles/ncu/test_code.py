"""Source pages and reports of ncu become samples and instructions; damaged and hostile ones are refused or bounded."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadInput, Problem
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tools.find_hotspots import find_hotspots
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


@pytest.mark.parametrize("packed", [False, True])
def test_a_source_page_alone_is_a_workload_of_samples(tmp_path: Path, packed: bool) -> None:
    text = page(("k(int)", block())).encode()
    store, found = imported(tmp_path, gzip.compress(text) if packed else text, "page.csv" + ".gz" * packed)
    assert (found.format, found.samples, found.dispatches) == ("ncu", 50, None)
    assert [call.tool for call in found.next] == ["find_hotspots"]
    assert rows(store, "samples", '"offset", stall_reason, issued, count') == [
        (16, "dependency", True, 8),
        (16, "memory", False, 40),
        (16, "memory", True, 2),
    ]
    assert rows(store, "instructions", '"offset", class, waits_for, executed') == [
        (0, "global_load", None, 64),
        (16, "valu", "0", 64),
    ]


def test_a_launch_that_is_printed_twice_counts_once_and_two_launches_count_twice(tmp_path: Path) -> None:
    text = page(("k", block(50)), ("k", block(50)), ("k", block(60)), ("k", block(60)))
    store, found = imported(tmp_path, text)
    assert found.samples == 110
    assert rows(store, "instructions", "executed, launches") == [(128, 2), (128, 2)]


def test_builds_of_one_name_keep_their_code_apart(tmp_path: Path) -> None:
    other = [[hex(0x500), "      EXIT", 5, 1, 0, 5, 0, 0]]
    store, _ = imported(tmp_path, page(("k", block()), ("k", other)))
    assert len({row[0] for row in rows(store, "instructions", "code_object, instruction")}) == 2


def test_samples_without_reasons_are_kept_without_one(tmp_path: Path) -> None:
    text = page(("k", [["0x10", ADD, 7]]), header=["Address", "Source", "# Samples"])
    store, _ = imported(tmp_path, text)
    assert rows(store, "samples", "stall_reason, stall_raw, issued, count") == [(None, None, None, 7)]


def mixed(samples: int) -> str:
    """The view cuda,sass of one launch: a block for each file, instructions below their line."""
    header = ["Line No", "Source", "Address", "Source", "# Samples", "stall_long_sb"]
    files: list[tuple[str, list[list[Any]]]] = [
        ("/src/a.cu", [[7, "y = f(x);", *[""] * 4], ["", "", "0x1000", LOAD, 0, 0], ["", "", "0x1020", "EXIT", 0, 0]]),
        ("/src/b.h", [[3, "return 2 * x;", *[""] * 4], ["", "", "0x1010", ADD, samples, samples]]),
    ]
    lines = [line for path, of in files for line in (["File Path", path], ["Function Name", "k(int)"], header, *of)]
    return "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)


def test_a_view_of_source_and_instructions_has_lines_and_joins_the_files_of_a_launch(tmp_path: Path) -> None:
    store, found = imported(tmp_path, mixed(50) + mixed(50) + mixed(60))
    assert found.samples == 110
    assert rows(store, "instructions", '"offset", source_file, source_line, waits_for, launches') == [
        (0, "/src/a.cu", 7, None, 2),
        (16, "/src/b.h", 3, "0", 2),
        (32, "/src/a.cu", 7, None, 2),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (page(("k", [["0x10", ADD, 7]])), "3 of 8 columns"),
        (page(("k", []), header=["#", "Source", "# Samples"]) + '"1","int x;","5"\n', "not a view of instructions"),
        ('"File Name","/src/a.cu"\n"Line No","Source"\n"1","int x;"\n', "not a view of instructions"),
        (gzip.compress(page(("k", block() * 8_000)).encode())[:-30], "damaged"),
    ],
    ids=["short row", "source view", "source view of 2025", "cut gzip"],
)
def test_a_page_that_is_not_whole_or_of_another_view_is_refused(tmp_path: Path, text: str | bytes, said: str) -> None:
    name = "page.csv.gz" if isinstance(text, bytes) else "page.csv"
    with pytest.raises(Problem, match=said):
        imported(tmp_path, text, name)


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


def test_a_source_page_beside_a_raw_page_is_of_its_launches(tmp_path: Path, raw_page: Callable[..., Path]) -> None:
    folder = tmp_path / "run"
    names, grids = ["a(int)", "b(int)", "a(int)", "a(int)"], ["(8, 1, 1)", "(8, 1, 1)", "(8, 1, 1)", "(64, 1, 1)"]
    times = {"gpu__time_duration.sum": ("nsecond", [100, 200, 110, 900])}
    raw_page(times, name="run/raw.csv", Kernel_Name=names, Grid_Size=grids)
    (folder / "source.csv").write_text(page(*((name, block(40 + i)) for i, name in enumerate(names))))
    store = Store(tmp_path / "store")
    found = import_profile(store, str(folder))
    assert (found.dispatches, found.samples) == (4, 40 + 41 + 42 + 43)
    counted = {row[:2] for row in rows(store, "samples", "kernel, dispatch_id")}
    assert {kernel for kernel, _ in counted} == {"a(int)", "b(int)"}
    # Sizes are not on a source page: of b there is one configuration, of a there are two.
    assert {dispatch for kernel, dispatch in counted if kernel == "b(int)"} == {1}
    others = find_hotspots(store).kernels
    assert [row[others.columns.index("number")] for row in others.rows] == ["#2"]


@pytest.mark.parametrize("moved", [0, 0x10_0000_0000])
def test_code_has_the_same_name_wherever_it_was_loaded(moved: int) -> None:
    base = 0x7F_0000_1000 + moved
    rows = [
        code.ListedInstruction(base, f"@P0 BRA {hex(base + 0x20)}", None, None, {}, {}),
        code.ListedInstruction(base + 16, "MOV R1, c[0x0][0x28]", None, None, {}, {}),
    ]
    assert code._code_name(rows) == "69ccfac4e0ba"
