"""Thread traces that rocprofv3 decoded: what find_hotspots tells of them, and which files of theirs are opened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rooflens.analysis.hotspots.kernels import sampled_kernels
from rooflens.analysis.workload import Workload
from rooflens.tools.find_hotspots import find_hotspots

HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
SOURCE = "/src/app/k.hip"
KERNEL = "dots(float*, float const*, int)"
CODE: list[list[Any]] = [
    ["; _Z4dotsPfPKfi", 0, 1, KERNEL, 2, 0x1D40, 0, 0, 0, 0],
    ["global_load_dword v4, v[2:3], off", 0, 2, f"{SOURCE}:12", 2, 0x1D40, 64, 512, 128, 0],
    ["s_load_dword s6, s[2:3], 0x0", 0, 3, f"{SOURCE}:12", 2, 0x1D48, 64, 300, 10, 0],
    ["v_mul_f32_e32 v5, v5, v5", 0, 4, f"/src/app/k.h:3 -> {SOURCE}:11", 2, 0x1D50, 64, 256, 0, 5],
    ["s_waitcnt vmcnt(0) lgkmcnt(0)", 0, 5, f"{SOURCE}:12", 2, 0x1D68, 64, 90_000, 89_000, 0],
    ["s_cbranch_scc0 65523", 0, 6, f"{SOURCE}:11", 2, 0x1D70, 64, 256, 0, 0],
]
UI = "ui_output_agent_4711_dispatch_2"


def written(folder: Path, code: Sequence[Sequence[Any]] = CODE, header: str = HEADER, name: str = UI) -> Path:
    """A decoded trace with one wave, one copied source, and the list of files."""
    ui = folder / name
    ui.mkdir(parents=True)
    (ui / "code.json").write_text(json.dumps({"code": code, "header": header, "version": "3.0.0"}))
    (ui / "filenames.json").write_text(json.dumps({"gfxip": 9, "gfxv": "vega", "wave_filenames": {}}))
    (ui / "snapshots.json").write_text(json.dumps({"/": {"src": {"app": {"k.hip": "source_0_k.hip"}}}}))
    (ui / "source_0_k.hip").write_text("".join(f"line {n} of k\n" for n in range(1, 60)))
    (ui / "occupancy.json").write_text(json.dumps({"0": [[1, 0, 0, 0, 1, 1]], "dispatches": {"1": KERNEL}}))
    wave = {
        "begin": 0,
        "end": 9,
        "cu": 1,
        "instructions": [[0, 1, 0, 4, 2]],
        "waitcnt": [[5, [[2, 40], [3, 3]]], [99, [[2, 1]]], "odd", [5, 7]],
    }
    (ui / "se0_sm0_sl0_wv0.json").write_text(json.dumps({"wave": wave, "num_insts": 1}))
    return ui


def test_the_hot_line_of_a_trace_is_told_in_cycles_with_those_before_an_instruction(bench: Any) -> None:
    done = bench.load(written(bench.folder))
    found = find_hotspots(bench.store)
    first = dict(zip(found.hotspots.columns, found.hotspots.rows[0], strict=True))
    assert (first["line"], first["source"]) == ("k.hip:12", "line 12 of k")
    assert first["pct"] > 95 and first["executed"] == 64
    assert found.samples == 0 and any("thread trace" in note for note in found.notes)
    (kernel,) = sampled_kernels(Workload(bench.store, bench.store.resolve(done.workload)))
    assert kernel.cycles == sum(latency + idle for *_, latency, _, idle in CODE) == 91_329


def test_a_trace_without_a_wave_says_what_to_trace_instead(bench: Any) -> None:
    done = bench.load(written(bench.folder, [[*row[:6], 0, 0, 0, 0] for row in CODE]))
    assert any("--att-target-cu" in warning for warning in done.warnings)
    found = find_hotspots(bench.store)
    assert found.hotspots.rows == [] and any("no wave of this kernel was observed" in note for note in found.notes)


def test_copies_of_sources_are_read_from_the_folder_only(bench: Any) -> None:
    secret = bench.folder / "secret.hip"
    secret.write_text("secret\n" * 60)
    ui = written(bench.folder)
    (ui / "source_1_k.hip").symlink_to(secret)
    for name in ("../secret.hip", str(secret), "source_1_k.hip"):
        (ui / "snapshots.json").write_text(json.dumps({"/": {"src": {"app": {"k.hip": name}}}}))
        done = bench.load(ui)
        table = bench.store.file(bench.manifest(done), "source_lines")
        assert not table.exists() or not bench.rows(done, "source_lines")
