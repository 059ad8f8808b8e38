"""AMD instructions by their text: classes, targets of branches, and what a wait waits for."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import duckdb

from rooflens.analysis import hotspots
from rooflens.analysis.base.database import sql_literal
from rooflens.tests import DATA
from rooflens.tools.code_objects import isa
from rooflens.tools.code_objects.isa import AmdInstruction, class_of, class_sql, producers, target_of, waits_of


def listing(*texts: str) -> list[AmdInstruction]:
    return [AmdInstruction(4 * i, 4, text) for i, text in enumerate(texts)]


def test_the_class_of_an_instruction_is_told_by_its_name() -> None:
    with (DATA / "amd_instruction_classes.csv").open(newline="") as file, duckdb.connect() as con:
        for row in csv.DictReader(file):
            text, kind = row["instruction"], row["class"] or None
            assert class_of(text) == kind, text
            ((told,),) = con.execute(f"SELECT {class_sql(sql_literal(text))}").fetchall()
            assert told == kind, text


def test_every_class_is_one_of_both_vendors() -> None:
    both = tomllib.loads((Path(hotspots.__file__).parent / "classes.toml").read_text())
    own = tomllib.loads(Path(isa.__file__).with_suffix(".toml").read_text())
    assert {one["name"] for one in own["class"]} <= set(both)


def test_a_branch_counts_words_from_the_next_instruction_in_both_directions() -> None:
    assert target_of(0x191C, "s_cbranch_execz 18") == 0x1968
    assert target_of(0x1A70, "s_cbranch_scc0 65523") == 0x1A40
    assert target_of(0x1A70, "s_branch 0xfff3") == 0x1A40
    assert target_of(0x1A70, "s_setpc_b64 s[30:31]") is None
    assert target_of(0x1A70, "s_add_u32 s2, s2, 4") is None


def test_waits_of_every_generation_state_their_counters() -> None:
    assert waits_of("s_waitcnt vmcnt(3) lgkmcnt(0)") == {"vmcnt": 3, "lgkmcnt": 0}
    assert waits_of("s_waitcnt_vscnt null, 0x0") == {"vscnt": 0}
    assert waits_of("s_wait_loadcnt 0x2") == {"loadcnt": 2}
    assert waits_of("s_wait_loadcnt_dscnt 0x102") == {"loadcnt": 1, "dscnt": 2}
    assert waits_of("s_wait_alu depctr_va_vdst(0)") == {}
    assert waits_of("v_mov_b32 v0, 0") == {}


def test_an_ordered_counter_leads_to_the_load_before_those_that_may_go_on() -> None:
    code = listing(
        "global_load_dword v1, v[8:9], off", "global_load_dword v2, v[8:9], off", "global_load_dword v3, v[8:9], off",
        "s_waitcnt vmcnt(2)", "v_add_f32 v0, v0, v1", "s_waitcnt vmcnt(0)", "v_add_f32 v0, v2, v3",
    )  # fmt: skip
    assert producers(code, "gfx942") == {12: [0], 20: [8]}


def test_a_loop_leads_back_to_loads_of_the_round_before() -> None:
    # The first load is made before the loop, each round loads for the next one.
    code = listing(
        "global_load_dword v1, v[8:9], off", "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v1",
        "global_load_dword v1, v[8:9], off offset:4", "s_cbranch_scc0 65532", "s_endpgm",
    )  # fmt: skip
    assert target_of(16, code[4].text) == 4
    assert producers(code, "gfx942") == {4: [0, 12]}
    # What an earlier wait awaited is not waited for again.
    code = listing("global_load_dword v1, v[8:9], off", "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v1", "s_waitcnt vmcnt(0)")
    assert producers(code, "gfx942") == {4: [0]}


def test_of_an_unordered_counter_only_a_wait_for_all_is_told() -> None:
    code = listing("s_load_dword s0, s[2:3], 0x0", "ds_read_b32 v0, v1", "s_waitcnt lgkmcnt(1)", "s_waitcnt lgkmcnt(0)")
    assert producers(code, "gfx942") == {12: [4]}


def test_loads_from_lds_end_in_order_as_long_as_nothing_else_is_under_way() -> None:
    code = listing(
        "s_load_dword s0, s[2:3], 0x0", "s_waitcnt lgkmcnt(0)", "ds_read_b32 v0, v9", "ds_read_b32 v1, v9 offset:4",
        "s_waitcnt lgkmcnt(1)", "v_mov_b32 v2, v0", "s_waitcnt lgkmcnt(0)",
    )  # fmt: skip
    at = [one.offset for one in code]
    assert producers(code, "gfx942") == {at[1]: [at[0]], at[4]: [at[2]], at[6]: [at[3]]}


def test_stores_count_with_loads_only_where_they_have_no_counter_of_their_own() -> None:
    code = listing(
        "global_load_dword v1, v[8:9], off", "global_store_dword v[8:9], v2, off", "s_waitcnt vmcnt(0)",
        "s_waitcnt_vscnt null, 0x0",
    )  # fmt: skip
    assert producers(code, "gfx942")[8] == [4]
    assert producers(code, "gfx1100") == {8: [0], 12: [4]}


def test_thousands_of_waits_over_branches_end_within_the_steps_of_a_kernel() -> None:
    # Every instruction is reached from everywhere: without a limit the ways would be walked for each wait anew.
    code = [
        one
        for i in range(0, 9_000, 3)
        for one in (
            AmdInstruction(4 * i, 4, "s_cbranch_scc0 7"),
            AmdInstruction(4 * i + 4, 4, "v_mov_b32 v0, v1"),
            AmdInstruction(4 * i + 8, 4, "s_waitcnt vmcnt(63)"),
        )
    ]
    assert producers(code, "gfx942") == {}
