"""Thread traces that rocprofv3 decoded: executions, cycles, lines and what waits waited for, of every instruction."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import Problem
from rooflens.analysis.hotspots.kernels import sampled_kernels
from rooflens.analysis.workload import Workload
from rooflens.tests.made.rocprofv3 import Launch, Writer, run
from rooflens.tools.find_hotspots import find_hotspots

HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
NEWER = f"{HEADER}, ServiceType, Issued, Stalled, NotIssuedReasons"
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


def as_csv(file: Path, code: Sequence[Sequence[Any]] = CODE) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as handle:
        out = csv.writer(handle)
        out.writerow(["CodeObj", "Vaddr", "Instruction", "Hitcount", "Latency", "Stall", "Idle", "Source"])
        out.writerows([r[4], r[5], r[0], *r[6:10], r[3]] for r in code)
    return file


COLUMNS = '"offset", class, source_line, executed, latency_cycles, stall_cycles, idle_cycles, target, waits_for'
EXPECTED = [
    (0x1D40, "global_load", 12, 64, 512, 128, 0, None, None),
    (0x1D48, "constant_load", 12, 64, 300, 10, 0, None, None),
    (0x1D50, "valu", 3, 64, 256, 0, 5, None, None),
    (0x1D68, "wait", 12, 64, 90_000, 89_000, 0, None, f"{0x1D40},{0x1D48}"),
    (0x1D70, "branch", 11, 64, 256, 0, 0, 0x1D40, None),
]


def test_a_decoded_trace_tells_cycles_lines_and_what_waits_waited_for(bench: Any) -> None:
    done = bench.load(written(bench.folder))
    assert (done.format, done.dispatches) == ("rocprofv3", 0)
    assert bench.rows(done, "instructions", COLUMNS) == EXPECTED
    assert set(bench.rows(done, "instructions", "kernel, code_object, launches")) == {(KERNEL, "code object 2", 1)}
    assert bench.rows(done, "instructions", "inlined", "inlined IS NOT NULL") == [(f"at {SOURCE}:11",)]
    lines = dict(bench.rows(done, "source_lines", 'source_line, "text"'))
    assert lines[12] == "line 12 of k" and len(lines) == 32
    assert any("of the traced waves" in note for note in done.notes)


def test_the_hot_line_of_a_trace_is_told_in_cycles(bench: Any) -> None:
    bench.load(written(bench.folder))
    found = find_hotspots(bench.store)
    first = dict(zip(found.hotspots.columns, found.hotspots.rows[0], strict=True))
    assert (first["line"], first["source"]) == ("k.hip:12", "line 12 of k")
    assert first["pct"] > 95 and first["executed"] == 64
    assert found.samples == 0 and any("thread trace" in note for note in found.notes)


def test_cycles_of_a_kernel_include_those_that_waves_were_idle_before_an_instruction(bench: Any) -> None:
    done = bench.load(written(bench.folder))
    (kernel,) = sampled_kernels(Workload(bench.store, bench.store.resolve(done.workload)))
    assert kernel.cycles == sum(latency + idle for _, _, _, _, latency, _, idle, _, _ in EXPECTED) == 91_329


def test_statistics_alone_give_the_same_but_what_the_waves_saw(bench: Any) -> None:
    done = bench.load(as_csv(bench.folder / f"stats_{UI}.csv"))
    # Without waves the order of instructions tells: the newest of each kind.
    assert bench.rows(done, "instructions", COLUMNS) == EXPECTED


def test_a_trace_beside_launches_belongs_to_the_one_that_it_names(bench: Any) -> None:
    made = run(Launch("first"), Launch("dots_as_launched", grid=(128, 1, 1)), Launch("third"))
    Writer(bench.folder / "in").trace("4711", made)
    written(bench.folder / "in")
    as_csv(bench.folder / "in" / f"stats_{UI}.csv")
    done = bench.load(bench.folder / "in")
    assert done.dispatches == 3
    assert set(bench.rows(done, "instructions", "kernel, launch")) == {("dots_as_launched", 1)}
    assert len(bench.rows(done, "instructions")) == 5


def test_samples_in_the_newer_layout_are_samples_and_no_cycles(bench: Any) -> None:
    code = [[*row, 2, issued, stalled, [0] * 8] for row, issued, stalled in zip(CODE, range(6), range(6), strict=True)]
    done = bench.load(written(bench.folder, code, NEWER))
    assert bench.manifest(done).samples == 2 * (1 + 2 + 3 + 4 + 5)
    rows = bench.rows(done, "samples", "issued, stall_reason, count", f'"offset" = {0x1D68}')
    assert sorted(rows) == [(False, None, 4), (True, "issued", 4)]
    assert set(bench.rows(done, "instructions", "executed, latency_cycles")) == {(None, None)}


CALLED, OTHER = 0x1E00, 0x1F00
SEVERAL: list[list[Any]] = [
    *CODE,
    ["; _Z6helperPKf", 0, 7, "helper(float const*)", 2, CALLED, 0, 0, 0, 0],
    ["v_exp_f32_e32 v1, v1", 0, 8, "/src/app/k.h:9", 2, CALLED, 64, 4000, 0, 0],
    ["s_setpc_b64 s[30:31]", 0, 9, "/src/app/k.h:10", 2, CALLED + 4, 64, 100, 0, 0],
    ["; _Z3mulPf", 0, 10, "mul(float*)", 2, OTHER, 0, 0, 0, 0],
    ["v_mul_f32_e32 v1, v1, v1", 0, 11, "/src/app/k.hip:30", 2, OTHER, 32, 700, 0, 100],
    ["v_add_f32_e32 v1, v1, v2", 0, 12, "/src/app/k.hip:31", 2, OTHER + 4, 32, 200, 0, 0],
    ["s_endpgm", 0, 13, "/src/app/k.hip:32", 2, OTHER + 8, 32, 0, 0, 0],
]


@pytest.mark.parametrize("stated", ["json", "csv"])
def test_kernels_traced_in_one_go_are_apart_and_a_called_function_belongs_to_its_kernel(
    stated: str, bench: Any
) -> None:
    file = bench.folder / f"stats_{UI}.csv"
    bench.load(written(bench.folder, SEVERAL) if stated == "json" else as_csv(file, SEVERAL))
    first = find_hotspots(bench.store)
    assert first.kernel == KERNEL and [row[1] for row in first.kernels.rows] == ["mul(float*)"]
    assert "k.h:9" in [row[0] for row in first.hotspots.rows]
    # Cycles of latency, of which none is a stall, and idle ones before it.
    found = find_hotspots(bench.store, kernel="mul").hotspots
    mul = dict(zip(found.columns, found.rows[0], strict=True))
    assert (mul["line"], mul["pct"], mul["why"]) == ("k.hip:30", 80.0, "issued 88 %, other 12 %")


def test_of_kernels_traced_in_one_go_the_launch_is_that_of_its_own_kernel_alone(bench: Any) -> None:
    Writer(bench.folder / "in").trace("4711", run(Launch("first"), Launch("mul(float*)", grid=(128, 1, 1))))
    written(bench.folder / "in", SEVERAL)
    done = bench.load(bench.folder / "in")
    rows = bench.rows(done, "instructions", "kernel, launch, count(*) OVER (PARTITION BY kernel)")
    assert set(rows) == {("mul(float*)", 1, 3), (KERNEL, None, 7)}


def test_what_waits_waited_for_is_read_as_rocprofv3_writes_it(bench: Any) -> None:
    """Beside each instruction that was waited for it writes 0, however often that was."""
    ui = written(bench.folder)
    (ui / "se0_sm0_sl0_wv0.json").write_text(
        json.dumps({"wave": {"begin": 0, "end": 9, "cu": 1, "waitcnt": [[5, [[3, 0]]], [5, [[3, 0]]]]}})
    )
    done = bench.load(ui)
    assert bench.rows(done, "instructions", "waits_for", f'"offset" = {0x1D68}') == [(str(0x1D48),)]
    found = find_hotspots(bench.store, by="instruction")
    first = dict(zip(found.hotspots.columns, found.hotspots.rows[0], strict=True))
    assert "s_load_dword" in first["instruction"] and found.launches_sampled == 1


def test_a_trace_without_a_wave_says_what_to_trace_instead(bench: Any) -> None:
    done = bench.load(written(bench.folder, [[*row[:6], 0, 0, 0, 0] for row in CODE]))
    assert any("--att-target-cu" in warning for warning in done.warnings)
    found = find_hotspots(bench.store)
    assert found.hotspots.rows == [] and any("no wave of this kernel was observed" in note for note in found.notes)


def test_one_damaged_trace_is_named_and_the_others_are_read(bench: Any) -> None:
    written(bench.folder / "in")
    other = written(bench.folder / "in", name="ui_output_agent_4711_dispatch_3")
    (other / "code.json").write_text((other / "code.json").read_text()[:200])
    done = bench.load(bench.folder / "in")
    assert len(bench.rows(done, "instructions")) == 5
    assert any("dispatch_3/code.json is damaged" in warning for warning in done.warnings)
    with pytest.raises(Problem, match="damaged"):
        bench.load(other)


@pytest.mark.parametrize(
    "code",
    [
        [],
        [["s_nop 0"]],
        [[None] * 10, [{}] * 10, [[]] * 10],
        [["s_nop 0", 0, 1, 5, "2", -8, -1, 2**80, "many", 1.5]],
        [["x" * 100_000, 0, 1, "y" * 100_000, 2, 16, 1, 1, 1, 1]],
        [[{"a": 1}, 0, 1, "a:1", 2, 2**61, 1, 1, 1, 1]],
    ],
)
def test_odd_rows_are_left_out_or_refused_in_words(code: list[Any], bench: Any) -> None:
    ui = written(bench.folder, code)
    try:
        done = bench.load(ui)
    except Problem as problem:
        assert "trace" in problem.text
    else:
        for offset, executed in bench.rows(done, "instructions", '"offset", executed'):
            assert (offset is None or offset >= 0) and (executed is None or executed >= 0)


def test_copies_of_sources_are_read_from_the_folder_only(bench: Any) -> None:
    secret = bench.folder / "secret.hip"
    secret.write_text("secret\n" * 60)
    ui = written(bench.folder)
    (ui / "source_1_k.hip").symlink_to(secret)
    for name in ("../secret.hip", str(secret), "source_1_k.hip", "..", ""):
        (ui / "snapshots.json").write_text(json.dumps({"/": {"src": {"app": {"k.hip": name}}}}))
        done = bench.load(ui)
        table = bench.store.file(bench.manifest(done), "source_lines")
        assert not table.exists() or not bench.rows(done, "source_lines")
