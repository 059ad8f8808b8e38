"""Registers of SASS are followed from a late result to the first instruction that needs it."""

from rooflens.tools.profiles.ncu.sass import SassInstruction, analyse

BASE = 0x7F0000001000


def code(*texts: str) -> list[SassInstruction]:
    return analyse([(BASE + 16 * i, "      " + text) for i, text in enumerate(texts)])


def waits(found: list[SassInstruction]) -> dict[int, list[int]]:
    """Place -> places that it waits for."""
    return {one.offset // 16: [offset // 16 for offset in one.waits_for] for one in found if one.waits_for}


def test_the_first_reader_waits_and_later_ones_do_not():
    found = code("LDG.E R5, desc[UR8][R4.64]", "FADD R8, R8, R9", "FADD R8, R8, R5", "FMUL R9, R5, R5", "EXIT")
    assert waits(found) == {2: [0]}


def test_a_wide_load_is_waited_for_by_each_of_its_registers():
    assert waits(code("LDG.E.128 R4, desc[UR8][R2.64]", "FADD R1, R1, R7")) == {1: [0]}
    assert waits(code("LDG.E.128 R4, desc[UR8][R2.64]", "FADD R1, R1, R8")) == {}
    assert waits(code("LDG.E.64 R14, desc[UR6][R26.64]", "DFMA R22, R6, R14, R22")) == {1: [0]}
    assert waits(code("LDS R15, [R2]", "DADD R22, R6, R14")) == {1: [0]}
    # Of matrices, as many registers as are loaded.
    assert waits(code("LDSM.16.M88.4 R4, [R2]", "FADD R1, R1, R7")) == {1: [0]}
    assert waits(code("LDSM.16.M88.2 R4, [R2]", "FADD R1, R1, R5")) == {1: [0]}
    assert waits(code("LDSM.16.M88.2 R4, [R2]", "FADD R1, R1, R6")) == {}


def test_a_value_loaded_at_the_end_of_a_loop_is_waited_for_at_its_start():
    found = code(
        "LDG.E R4, desc[UR4][R2.64]",
        "FADD R8, R8, R4",
        "LDG.E R4, desc[UR4][R2.64]",
        f"@P0 BRA 0x{BASE + 16:x}",
        "EXIT",
    )
    assert found[3].target == 16
    assert waits(found) == {1: [0, 2]}


def test_what_a_branch_or_a_jump_never_reaches_is_not_waited_for():
    found = code("@P0 BRA 0x7f0000001030", "LDG.E R4, desc[UR4][R2.64]", "EXIT", "FADD R8, R8, R4")
    assert waits(found) == {}
    found = code("LDG.E R4, desc[UR4][R2.64]", "BRA 0x7f0000001030", "FADD R1, R4, R4", "FADD R2, R4, R4")
    assert waits(found) == {3: [0]}


def test_a_store_waits_for_its_data_and_its_address_and_overwriting_for_a_load():
    assert waits(code("LDL R11, [R1+0x1c0]", "STL [R1+0x36c], R11")) == {1: [0]}
    assert waits(code("LDG.E.64 R4, desc[UR4][R2.64]", "STG.E desc[UR4][R4.64], R9")) == {1: [0]}
    assert waits(code("LDG.E R4, desc[UR4][R2.64]", "MOV R4, 0x1")) == {1: [0]}


def test_copies_are_waited_for_by_their_counter_and_barriers_by_what_is_behind_them():
    found = code(
        "LDGSTS.E.128 [R5], desc[UR4][R2.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x0", "BAR.SYNC.DEFER_BLOCKING 0x0"
    )
    assert waits(found) == {2: [0]}
    found = code("STS [R3], R6", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R4, [R6+UR4]", "FADD R4, R4, R5")
    assert waits(found) == {2: [1], 3: [2]}
    assert waits(code("BAR.ARV 0x1, 0x40", "FADD R4, R4, R5")) == {}


def test_special_registers_and_functions_are_late_arithmetic_is_not():
    assert waits(code("S2R R2, SR_TID.X", "IMAD R3, R2, 0x4, RZ")) == {1: [0]}
    assert waits(code("MUFU.RCP R2, R3", "FMUL R3, R2, R2")) == {1: [0]}
    assert waits(code("S2UR UR4, SR_CTAID.X", "IMAD.WIDE.U32 R4, R5, UR4, R2")) == {1: [0]}
    assert waits(code("FFMA R2, R3, R4, R5", "FMUL R3, R2, R2")) == {}


def test_accesses_to_the_stack_are_spills_and_those_by_an_index_are_not():
    spilled, indexed, other = code("STL [R1+0x36c], R11", "LDL R2, [R7]", "LDG.E R4, desc[UR4][R2.64]")
    assert (spilled.spill, indexed.spill, other.spill) == (True, False, None)
    assert [one.kind for one in (spilled, indexed, other)] == ["scratch_store", "scratch_load", "global_load"]


def test_where_a_kernel_was_loaded_does_not_show_in_its_text():
    first = code("@!P0 BRA 0x7f0000001010", "BRA 0x7f0000001010")
    moved = analyse([(16 * i + 0x500000, f"@!P0 BRA 0x{0x500010:x}") for i in range(2)])
    assert first[0].text == moved[0].text == "@!P0 BRA 0x10"


def test_text_that_is_no_instruction_is_kept_and_followed_nowhere():
    found = code("<unknown>", "", "LDG", "BRA `(.L_x_1)", "IMAD " + "R1, " * 5000, "@P0 BRA 0x", "R1")
    assert len(found) == 7
    assert all(one.target is None for one in found)
    assert analyse([]) == []
