"""find_hotspots names the lines that cost the time, why, and what they wait for; and says what it cannot know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadInput, NotFound, Problem
from rooflens.analysis.hotspots.kernels import sampled_kernels
from rooflens.analysis.hotspots.ranking import quotes
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.server.mcp import toolbox
from rooflens.tests.made.source_page import block, imported, page
from rooflens.tests.system.server.test_hostile_text import PAYLOADS, active, strings
from rooflens.tools.base.results import Table
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.find_hotspots import HotspotsResult, find_hotspots
from rooflens.tools.import_profile import import_profile
from rooflens.tools.rendering import render

EXPECTED = {  # of labelled.cu: kernel -> line that holds its bottleneck by construction, main reason, main instruction
    "shared_conflict": (16, "lds_queue", "LDS"),
    "matmul_naive": (45, "memory", "LDG"),
}


def rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize("kernel", EXPECTED)
def test_the_line_of_the_known_bottleneck_is_first(labelled: Store, kernel: str) -> None:
    line, reason, opcode = EXPECTED[kernel]
    found = rows(find_hotspots(labelled, "labelled", kernel).hotspots)
    assert found[0]["line"] == f"labelled.cu:{line}"
    assert found[0]["why"].startswith(reason)
    assert opcode in found[0]["instruction"]
    instructions = rows(find_hotspots(labelled, "labelled", kernel, by="instruction").hotspots)
    assert opcode in instructions[0]["instruction"]


def test_excess_bytes_are_the_sectors_beyond_the_least_times_32(labelled: Store) -> None:
    table = find_hotspots(labelled, "labelled", "strided").hotspots
    (row,) = rows(table)
    # two launches of 2^24 loads of 4 bytes each, eight times: a sector each where 4 would do for 32
    assert row["excess_bytes"] == pytest.approx(2 * 8 * (1 << 24) * 32 * 7 / 8, rel=1e-3)
    assert row["moved_bytes"] == pytest.approx(row["excess_bytes"] * 8 / 7, rel=1e-3)
    assert [unit for unit in table.units if unit and unit.startswith("bytes")] == ["bytes, sum over 2 launches"] * 2


def test_a_wait_counts_at_the_load_and_names_the_line_that_shows_it(tmp_path: Path) -> None:
    store, _ = imported(tmp_path, page(("k", block(500))))
    found = find_hotspots(store)
    load, add = rows(found.hotspots)
    assert "LDG" in load["instruction"] and "FADD" in add["instruction"]
    assert (load["pct"], load["found_here_pct"], load["waits"]) == (98.4, 0.0, "seen at 0x10 FADD R8, R8, R5")
    assert (add["pct"], add["found_here_pct"]) == (1.6, 100.0)
    assert add["waits"] == "for 0x0 LDG.E R5, desc[UR8][R4.64]"


def test_a_dozen_samples_are_said_to_be_no_evidence(tmp_path: Path) -> None:
    store, _ = imported(tmp_path, page(("k", block(12))))
    found = find_hotspots(store)
    assert found.samples == 12
    low, high = map(float, rows(found.hotspots)[0]["interval"].split("-"))
    assert low < 50 and high > 80
    assert any("not enough to rank lines" in note for note in found.notes)
    with Workload.open(store, "latest") as opened:
        assert quotes(opened, sampled_kernels(opened)[0], "hbm") == [], "a diagnosis does not quote them"


def test_a_workload_without_samples_says_how_to_get_them(samples: Store) -> None:
    with pytest.raises(BadInput, match="hotspots"):
        find_hotspots(samples, "yax_before")


def test_a_kernel_without_samples_is_refused(tmp_path: Path) -> None:
    store, _ = imported(tmp_path, page(("k", block())))
    for kernel in ("#7", "nothing_like_it", "#1.9"):
        with pytest.raises(NotFound, match="#1"):
            find_hotspots(store, kernel=kernel)


def test_text_of_a_hostile_page_cannot_act(tmp_path: Path) -> None:
    quoted = [payload.replace('"', '""') for payload in PAYLOADS]
    blocks = [(f"evil {p}", [[hex(16), f"LDG {p} R1", 500, 1, 500, 0, 500, 0]]) for p in quoted]
    store, _ = imported(tmp_path, page(*blocks).encode("utf-8", "surrogatepass"))
    for by in ("line", "instruction"):
        answer = toolbox.answer(store, "find_hotspots", {"by": by, "detail": "full", "context": 3})
        assert isinstance(answer, HotspotsResult), answer
        words = {render.text(answer), *strings(render.structured_content(answer))}
        assert {string: what for string in words if (what := active(string))} == {}
        assert any("data" in note for note in answer.notes)
        assert not any("evil" in word for call in answer.next for word in strings(call.model_dump()))


def test_the_diagnosis_of_a_kernel_quotes_its_hottest_lines(labelled: Store) -> None:
    found = diagnose_bottleneck(labelled, "labelled", "spill")
    (quoted, *_) = found.kernels[0].lines
    assert quoted.startswith("labelled.cu:32 (LDL") and "most of them memory" in quoted
    assert [call.tool for call in found.next if call.tool == "find_hotspots"]


def test_lines_behind_a_verdict_are_those_that_wait_for_its_subsystem(labelled: Store) -> None:
    with Workload.open(labelled, "labelled") as opened:
        one = next(k for k in sampled_kernels(opened) if "spill" in k.kernel)
        for subsystem in ("scratch", "unknown"):
            assert quotes(opened, one, subsystem)[0].startswith("labelled.cu:32 ")
        assert quotes(opened, one, "barrier") == []


def test_tools_that_need_launches_say_that_there_are_samples_alone(tmp_path: Path) -> None:
    file = tmp_path / "page.csv"
    file.write_text(page(("k", block(500))))
    store = Store(tmp_path / "store")
    import_profile(store, str(file), gpu="sm_90")
    for tool in ("compute_metrics", "compute_roofline", "diagnose_bottleneck"):
        answer = toolbox.answer(store, tool, {"workload": "latest"})
        assert isinstance(answer, Problem) and "find_hotspots" in answer.text


def test_waits_at_a_barrier_count_at_the_barrier_and_not_behind_it(tmp_path: Path) -> None:
    header = ["Address", "Source", "# Samples", "Instructions Executed", "stall_barrier", "stall_long_sb"]
    code = ["LDG.E R5, desc[UR8][R4.64]", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R4, [R6+UR4]", "FADD R4, R4, R5"]
    counts = [(0, 0), (5, 0), (800, 40), (0, 0)]
    lines = [[hex(16 * i), text, a + b, 9, a, b] for i, (text, (a, b)) in enumerate(zip(code, counts, strict=True))]
    store, _ = imported(tmp_path, page(("k", lines), header=header))
    barrier, load = rows(find_hotspots(store).hotspots)
    assert "BAR.SYNC" in barrier["instruction"] and barrier["pct"] == pytest.approx(95.3, abs=0.1)
    assert "LDS" in load["instruction"] and load["found_here_pct"] == pytest.approx(99.4, abs=0.1)
