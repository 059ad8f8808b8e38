"""Samples of the program counter: every format gives the same tables, with the code around them where it is there."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rooflens.analysis.problems import NotFound, Problem
from rooflens.tests.tools.profilers.rocprofv3.made import Launch, Run, Writer, run
from rooflens.tests.tools.profilers.rocprofv3.made_rocpd import GUID, write_rocpd
from rooflens.tools.codeobject.disassembly import disassemblers
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.list_workloads import list_workloads

HSACO = Path(__file__).parents[2] / "codeobject" / "data" / "lines_gfx942.hsaco"
WAIT, FMAC, LOAD, SCALAR = 0x1D68, 0x1D6C, 0x1D40, 0x1D48
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
BASE = 0x7FEE53648000
COLUMNS = 'dispatch_id, kernel, launch, "offset", instruction, source_file, source_line, stall_reason, issued, count'
needs_objdump = pytest.mark.skipif(not disassemblers(), reason="needs apt-get install llvm-22 (llvm-objdump)")


@dataclass(frozen=True)
class At:
    """Samples of one launch at one instruction."""

    dispatch: int
    offset: int
    text: str
    comment: str
    reason: str | None
    count: int

    @property
    def issued(self) -> int:
        return int(self.reason == "NONE")


SAMPLES = (
    At(1, WAIT, "s_waitcnt vmcnt(0) lgkmcnt(0)", "/src/lines.hip:16", "WAITCNT", 700),
    At(2, WAIT, "s_waitcnt vmcnt(0) lgkmcnt(0)", "/src/lines.hip:16", "WAITCNT", 200),
    At(2, FMAC, "v_fmac_f32_e32 v1, s6, v4", "/src/lines.hip:16", "NONE", 60),
    At(2, 0x1D84, "v_pk_fma_f32 v[2:3], v[2:3], s[0:1], 1.0 op_sel_hi:[0,1,0]",
       "/src/lines.h:7 -> /src/lines.h:10 -> /src/lines.hip:17", "ALU_DEPENDENCY", 40),
)  # fmt: skip
LAUNCHES = run(Launch("dots", grid=(64, 1, 1)), Launch("dots", grid=(128, 1, 1)))


def as_json(file: Path, made: Run = LAUNCHES, samples: Sequence[At] = SAMPLES, uri: str = "", **other: Any) -> Path:
    """A JSON of rocprofv3 with samples; ``other`` replaces parts of the process."""
    Writer(file.parent).json(file.name, made)
    document = json.loads(file.read_text())
    (tool,) = document["rocprofiler-sdk-tool"]
    texts = sorted({(one.text, one.comment) for one in samples})
    tool["strings"] |= {"pc_sample_instructions": [t for t, _ in texts], "pc_sample_comments": [c for _, c in texts]}
    tool["code_objects"] = [{"code_object_id": 1, "uri": uri, "load_base": BASE, "load_delta": BASE}]
    tool["kernel_symbols"] = [
        {"kernel_id": 1, "code_object_id": 1, "kernel_name": "dots.kd", "formatted_kernel_name": "dots",
         "kernel_address": {"handle": BASE + 0x1D00}, "arch_vgpr_count": 8, "accum_vgpr_count": 4, "sgpr_count": 16}
    ]  # fmt: skip
    records = [
        {
            "record": {
                "pc": {"code_object_id": 1, "code_object_offset": one.offset}, "dispatch_id": one.dispatch,
                "exec_mask": 2**64 - 1, "timestamp": 1, "wave_issued": one.issued,
                "inst_type": "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_NO_INST",
                "snapshot": {"stall_reason": f"{REASON}{one.reason}"},
            },
            "inst_index": texts.index((one.text, one.comment)),
        }
        for one in samples
        for _ in range(one.count)
    ]  # fmt: skip
    tool["buffer_records"]["pc_sample_stochastic"] = records
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [tool | other]}))
    return file


def as_csv(file: Path, samples: Sequence[At] = SAMPLES, *, host_trap: bool = False) -> Path:
    head = ["Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction", "Instruction_Comment", "Correlation_Id"]
    more = ["Wave_Issued_Instruction", "Instruction_Type", "Stall_Reason", "Wave_Count"]
    lines = [",".join(f'"{h}"' for h in (head if host_trap else head + more))]
    for one in samples:
        row = f'1,18446744073709551615,{one.dispatch},"{one.text}","{one.comment}",{one.dispatch}'
        lines += [row if host_trap else f'{row},{one.issued},"X","{REASON}{one.reason}",4'] * one.count
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


_REASONS = {"NONE": 0, "ALU_DEPENDENCY": 2, "WAITCNT": 3}


def as_rocpd(file: Path, samples: Sequence[At] = SAMPLES, *, texts: bool = True) -> Path:
    """A database with the tables that rocprofv3 of 2026 adds."""
    write_rocpd(file, LAUNCHES)
    guid = GUID.format(1)
    suffix = guid.replace("-", "_")
    with sqlite3.connect(file) as con:
        con.execute(
            f"CREATE TABLE rocpd_gpu_pc_sample_{suffix} (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, "
            "agent_id INTEGER, dispatch_id INTEGER, timestamp BIGINT, exec_mask TEXT, code_object_id INTEGER, "
            "code_object_offset INTEGER, wave_issued INTEGER, inst_type INTEGER, stall_reason INTEGER)"
        )
        con.executemany(
            f"INSERT INTO rocpd_gpu_pc_sample_{suffix} (guid, pid, dispatch_id, code_object_id, code_object_offset, "
            "wave_issued, stall_reason) VALUES (?, ?, ?, 1, ?, ?, ?)",
            [(guid, LAUNCHES.pid, one.dispatch, one.offset, None if one.reason is None else one.issued,
              _REASONS.get(one.reason or "")) for one in samples for _ in range(one.count)],
        )  # fmt: skip
        if texts:
            con.execute(
                f"CREATE TABLE rocpd_disassembly_data_{suffix} (id INTEGER PRIMARY KEY, guid TEXT, "
                "code_object_id INTEGER, code_object_offset INTEGER, instruction TEXT, comment TEXT)"
            )
            con.executemany(
                f"INSERT INTO rocpd_disassembly_data_{suffix} (guid, code_object_id, code_object_offset, instruction, "
                "comment) VALUES (?, 1, ?, ?, ?)",
                {(guid, one.offset, one.text, one.comment) for one in samples},
            )
    con.close()
    return file


EXPECTED = [
    (1, "dots", 1, WAIT, SAMPLES[0].text, "/src/lines.hip", 16, "memory", False, 700),
    (2, "dots", 2, WAIT, SAMPLES[0].text, "/src/lines.hip", 16, "memory", False, 200),
    (2, "dots", 2, FMAC, SAMPLES[2].text, "/src/lines.hip", 16, "issued", True, 60),
    (2, "dots", 2, 0x1D84, SAMPLES[3].text, "/src/lines.h", 7, "dependency", False, 40),
]


@pytest.mark.parametrize("kind", ["json", "rocpd"])
def test_json_and_rocpd_give_the_samples_of_each_launch_configuration(kind: str, bench: Any) -> None:
    file = bench.folder / "in" / ("1_results.json" if kind == "json" else "1_results.db")
    done = bench.load((as_json if kind == "json" else as_rocpd)(file))
    assert bench.rows(done, "samples", COLUMNS) == EXPECTED
    assert bench.manifest(done).samples == 1000
    (inlined,) = bench.rows(done, "instructions", "inlined, class", 'inlined IS NOT NULL AND "offset" = 7556')
    assert inlined == ("at /src/lines.hip:17 > at /src/lines.h:10", "valu")


def test_csv_beside_a_trace_tells_the_kernels_and_no_addresses(bench: Any) -> None:
    as_csv(bench.folder / "in" / "4711_pc_sampling_stochastic.csv")
    Writer(bench.folder / "in").trace("4711", LAUNCHES)
    done = bench.load(bench.folder / "in")
    expected = [(*row[:3], None, *row[4:]) for row in EXPECTED]
    assert sorted(bench.rows(done, "samples", COLUMNS)) == sorted(expected)
    assert done.dispatches == 2


def test_host_trap_has_no_reasons_and_a_renamed_file_is_known_by_its_head(bench: Any) -> None:
    done = bench.load(as_csv(bench.folder / "whatever.csv", host_trap=True))
    rows = bench.rows(done, "samples", "dispatch_id, kernel, stall_reason, issued, count")
    assert {row[2:4] for row in rows} == {(None, None)} and sum(row[4] for row in rows) == 1000
    assert any("--kernel-trace" in note for note in done.notes)
    assert (done.kernels, done.dispatches) == (None, None), "samples alone tell neither"
    columns, (row,) = (found := list_workloads(bench.store).table).columns, found.rows
    assert [row[columns.index(name)] for name in ("kernels", "dispatches")] == [None, None]


def test_a_database_without_samples_takes_them_from_the_csv_beside_it(bench: Any) -> None:
    write_rocpd(bench.folder / "in" / "4711_results.db", LAUNCHES)
    as_csv(bench.folder / "in" / "4711_pc_sampling_stochastic.csv")
    done = bench.load(bench.folder / "in")
    assert sum(n for (n,) in bench.rows(done, "samples", "count", "kernel = 'dots' AND launch IS NOT NULL")) == 1000


def test_samples_outside_any_launch_take_their_kernel_from_the_code_object(bench: Any) -> None:
    lost = [At(0, WAIT, "s_waitcnt vmcnt(0)", "", "WAITCNT", 3), At(0, 0x100, "s_nop 0", "", "WAITCNT", 2)]
    done = bench.load(as_json(bench.folder / "1_results.json", samples=lost))
    assert bench.rows(done, "samples", "kernel, count") == [("(no name)", 2), ("dots", 3)]


@needs_objdump
def test_code_objects_in_the_folder_tell_the_whole_kernel(bench: Any) -> None:
    as_json(bench.folder / "in" / "4711_results.json", uri="memory://4711#offset=0x60a6&size=9872")
    shutil.copy(HSACO, bench.folder / "in" / "4711_code_object_id_1.out")
    done = bench.load(bench.folder / "in")
    assert bench.rows(done, "samples", COLUMNS) == EXPECTED
    code = bench.rows(done, "instructions", 'launch, "offset", class, source_line, target, waits_for')
    assert len(code) == 2 * 28
    assert (2, WAIT, "wait", 16, None, f"{LOAD},{SCALAR}") in code
    assert (1, 0x1D70, "branch", 15, LOAD, None) in code
    inlined = bench.rows(done, "instructions", "DISTINCT inlined", 'inlined IS NOT NULL AND "offset" = 7556')
    assert inlined == [("outer<3> at /src/lines.hip:17 > inner<3> at /src/lines.h:10",)]
    found = find_hotspots(bench.store)
    first = dict(zip(found.hotspots.columns, found.hotspots.rows[0], strict=True))
    assert first["line"] == "lines.hip:16" and first["loop"] == "L1"


def test_only_the_folder_is_looked_into_whatever_the_profile_names(bench: Any) -> None:
    done = bench.load(as_json(bench.folder / "in" / "4711_results.json", uri=f"file://{HSACO}#offset=0&size=9872"))
    assert len(bench.rows(done, "instructions")) == 4  # of the two launches, what was sampled
    assert {c for (c,) in bench.rows(done, "samples", "code_object")} == {f"{HSACO.name}#offset=0&size=9872"}
    outside = bench.folder / "in" / "link.hsaco"
    outside.symlink_to(HSACO)
    assert len(bench.rows(bench.load(bench.folder / "in"), "instructions")) == 4


@needs_objdump
def test_the_program_that_the_caller_names_holds_the_code(bench: Any) -> None:
    file = as_json(bench.folder / "in" / "4711_results.json")
    done = bench.load(file, code=str(HSACO))
    assert len(bench.rows(done, "instructions")) == 2 * 28
    script = bench.folder / "run.py"
    script.write_text("import torch")
    done = bench.load(file, code=str(script))
    assert any("run.py: This is no GPU code object" in note for note in done.notes)
    with pytest.raises(NotFound):
        bench.load(file, code=str(bench.folder / "none"))


def test_samples_of_another_run_belong_to_the_launches_that_it_repeats(bench: Any) -> None:
    Writer(bench.folder / "in" / "timing").trace("1", LAUNCHES)
    repeated = run(*reversed(LAUNCHES.launches), Launch("dots", grid=(64, 1, 1)), start=10**18)
    third = At(3, FMAC, SAMPLES[2].text, "", "NONE", 5)
    as_json(bench.folder / "in" / "pass_1" / "2_results.json", repeated, (*SAMPLES, third))
    done = bench.load(bench.folder / "in")
    # The order of the two launches is the other way round there; a second of one size counts with the first.
    found: Counter[tuple[int, int, int]] = Counter()
    for *place, count in bench.rows(done, "samples", 'dispatch_id, launch, "offset", count'):
        found[tuple(place)] += count
    assert found == {(1, 1, WAIT): 200, (1, 1, FMAC): 65, (1, 1, 0x1D84): 40, (2, 2, WAIT): 700}


@needs_objdump
def test_another_build_is_told_by_an_instruction_that_differs(bench: Any) -> None:
    changed = [At(1, WAIT, "s_barrier", "", "BARRIER_WAIT", 5)]
    as_json(bench.folder / "in" / "4711_results.json", samples=changed)
    shutil.copy(HSACO, bench.folder / "in" / "app.hsaco")
    done = bench.load(bench.folder / "in")
    assert len(bench.rows(done, "instructions")) == 1
    assert any("another build" in note and "s_barrier" in note for note in done.notes)


# -- damaged and hostile --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {"pc": {"code_object_id": -1, "code_object_offset": -5}, "dispatch_id": 1},
        {"pc": {"code_object_id": 2**200, "code_object_offset": 2**64}, "dispatch_id": 2**63},
        {"pc": {"code_object_id": "1", "code_object_offset": 1.5}, "dispatch_id": None, "wave_issued": "yes"},
        {"pc": [], "snapshot": "none", "wave_issued": float("nan")},
        {"snapshot": {"stall_reason": ["WAITCNT"]}},
        "record",
        None,
    ],
)
def test_records_of_wrong_types_are_samples_whose_place_is_not_known(record: object, bench: Any) -> None:
    file = as_json(bench.folder / "1_results.json")
    document = json.loads(file.read_text())
    (tool,) = document["rocprofiler-sdk-tool"]
    tool["buffer_records"]["pc_sample_stochastic"] = [{"record": record, "inst_index": 10**30}]
    tool["strings"]["pc_sample_comments"] = {"no": "list"}
    file.write_text(json.dumps(document))
    done = bench.load(file)
    ((offset, text, count),) = bench.rows(done, "samples", '"offset", instruction, count')
    assert (offset, text, count) == (None, None, 1)


def test_a_file_cut_anywhere_is_refused_in_words_or_read_as_far_as_it_says(bench: Any) -> None:
    whole = as_json(bench.folder / "1_results.json", samples=[At(1, WAIT, "s_nop 0", "", "WAITCNT", 3)]).read_text()
    for part in range(1, 20):
        file = bench.folder / f"cut{part}_results.json"
        file.write_text(whole[: len(whole) * part // 20])
        with pytest.raises(Problem):
            bench.load(file)


def test_csv_without_a_launch_or_with_a_column_missing_is_refused(bench: Any) -> None:
    file = as_csv(bench.folder / "a_pc_sampling_host_trap.csv", host_trap=True)
    file.write_text(file.read_text() + '1,2,many,"s_nop 0","",3\n')
    with pytest.raises(Problem, match="state no launch"):
        bench.load(file)
    file.write_text('"Sample_Timestamp","Exec_Mask"\n1,2\n')
    with pytest.raises(Problem, match="no column"):
        bench.load(file)


def test_comments_that_are_no_places_give_no_lines_and_hidden_characters_are_gone(bench: Any) -> None:
    odd = [
        At(1, 4 * n, "s_nop\u202e 0", comment, "WAITCNT", 1)
        for n, comment in enumerate(
            ("nothing", "a.h:0", "b.h:-3", "c.h:99999999999", ":7", "d\u200b.h:5 -> ", "\x1b[31me.h:6")
        )
    ]
    done = bench.load(as_json(bench.folder / "1_results.json", samples=odd))
    rows = bench.rows(done, "samples", "instruction, source_file, source_line", "true")
    assert {row[0] for row in rows} == {"s_nop 0"}
    assert sorted((f, n) for _, f, n in rows if n) == [("d.h", 5), ("e.h", 6)]


def test_without_addresses_equal_instructions_of_two_lines_are_two(bench: Any, shared: Path) -> None:
    bench.load(shared / "pc_sampling" / "pc_sampling_stochastic_debug.csv")
    found = find_hotspots(bench.store, by="instruction", detail="full")
    rows = [dict(zip(found.hotspots.columns, row, strict=True)) for row in found.hotspots.rows]
    waits = [(r["line"].rpartition(":")[2], r["pct"]) for r in rows if r["instruction"] == "s_waitcnt vmcnt(0)"]
    assert waits[:3] == [("82", 21.6), ("133", 17.5), ("99", 13.4)]  # 21, 17 and 13 of 97
