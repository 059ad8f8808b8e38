"""Results as text and JSON: compact, safe, capped."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rooflens.tools.base.results import NextCall, Result, Table, table
from rooflens.tools.rendering import render


class Answer(Result):
    """A result as tools make them."""

    name: str
    table: Table


def _answer(rows: int, cell: str = "x") -> Answer:
    found = table({"a": None, "b": "ns", "empty": None}, [[cell, float(i), None] for i in range(rows)])
    return Answer(
        name="w", table=found, notes=["careful"], next=[NextCall(tool="t", arguments={"k": 1}, why="because")]
    )


def test_text_names_units_drops_empty_columns_and_keeps_notes_and_next() -> None:
    text = render.text(_answer(2))
    assert "a | b [ns]\n" in text and "empty" not in text
    assert "- careful" in text and '- t {"k": 1}: because' in text


def test_whole_numbers_are_written_out_others_to_four_digits_and_a_confidence_to_two() -> None:
    columns, rows = {"v": None, "confidence": None}, [[13164269.0, 0.269], [0.123456789, 0.95], [1e300, None]]
    text = render.text(Answer(name="w", table=table(columns, rows)))
    assert "13164269 | 0.27" in text and "0.1235 | 0.95" in text and "1e+300" in text


def test_a_column_of_large_numbers_has_one_format() -> None:
    cells = [[3522606.0], [2951100.4], [999999.7], [123456.7], [99999.4], [1.5], [-2951100.4]]
    lines = render.text(Answer(name="w", table=table({"v": None}, cells))).split("\n")
    assert lines[5:12] == ["3522606", "2951100", "1000000", "123457", "99999", "1.5", "-2951100"]


def test_nothing_a_profile_says_can_steer_a_terminal_or_hide_text() -> None:
    hostile = "k\x1b[31m\u202eevil\u200b\U000e0041 | a\nb"
    found = render.structured_content(_answer(1, hostile))
    assert found["table"]["rows"][0][0] == "kevil | a\nb"
    assert "\x1b" not in render.text(_answer(1, hostile)) and "\\|" in render.text(_answer(1, hostile))


def test_non_finite_numbers_become_null() -> None:
    found = render.structured_content(
        Answer(name="w", table=table({"v": None}, [[float("nan")], [float("inf")], [1.0]]))
    )
    assert found["table"]["rows"] == [[None], [None], [1.0]]
    assert json.dumps(found, allow_nan=False)


def test_an_answer_over_the_cap_is_cut_and_says_how_to_go_on() -> None:
    document = render.fit_answer(_answer(5_000, "y" * 30), "compute_metrics", {"workload": "w", "offset": 10})
    big, small = document.result, _answer(3)
    assert render.fit_answer(small, "compute_metrics", {}).result is small
    assert isinstance(big, Answer)
    kept = len(big.table.rows)
    assert len(json.dumps(document.content)) <= render.CHARACTERS
    assert big.table.truncated and big.table.total_rows == 5_000
    assert big.next[0].arguments == {"workload": "w", "offset": 10 + kept}
    assert f"Truncated to {kept} of 5000 rows" in big.notes[-1]


MONSTER = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, std::array<char*, 1ul>>(int, float)"


class _Kernels(Result):
    table: Table


class _Rows(_Kernels):
    NAMES_AS_STORED = True


def test_a_text_calls_kernels_by_short_names_that_differ_and_the_data_by_their_own() -> None:
    names = [MONSTER.format("FillFunctor"), MONSTER.format("AbsFunctor"), "a::scale(float*)", "b::scale(float*)"]
    result = _Kernels(table=table({"rank": None, "kernel": None}, [[i, name] for i, name in enumerate(names)]))
    words = render.text(result)
    assert "0 | vectorized_elementwise_kernel<4, FillFunctor<float>>\n" in words and "std::" not in words
    assert "2 | a::scale(float*)\n3 | b::scale(float*)" in words
    assert [row[1] for row in render.structured_content(result)["table"]["rows"]] == names


@dataclass(frozen=True)
class _Verdict:
    kernel: str
    claim: str


class _Diagnosed(Result):
    kernels: list[_Verdict]
    others: list[dict[str, str]]


def test_kernels_in_findings_and_in_tables_have_the_same_short_names() -> None:
    names = [MONSTER.format("FillFunctor"), MONSTER.format("AbsFunctor")]
    result = _Diagnosed(
        kernels=[_Verdict(name, names[0]) for name in names], others=[{"kernel": names[0], "x": names[0]}]
    )
    words = render.text(result)
    assert words.count("kernel: vectorized_elementwise_kernel<4, FillFunctor<float>>; claim: void") == 1
    assert "kernel: vectorized_elementwise_kernel<4, AbsFunctor<float>>" in words
    assert "kernel=vectorized_elementwise_kernel<4, FillFunctor<float>>, x=void at::native" in words
    assert render.structured_content(result)["kernels"][1]["kernel"] == names[1]


def test_rows_of_a_callers_own_query_keep_their_names_and_six_digits() -> None:
    words = render.text(_Rows(table=table({"kernel": None, "v": None}, [[MONSTER.format("FillFunctor"), 0.123456789]])))
    assert MONSTER.format("FillFunctor") in words and "0.123457" in words


class _Script(Result):
    EXACT = frozenset({"commands"})
    commands: list[str]
    words: list[str]


def test_what_is_used_verbatim_is_not_escaped_in_an_answer_that_is_cut() -> None:
    command = "s3://bucket/<img src=x>"
    document = render.fit_answer(_Script(commands=[command], words=["w" * 5_000] * 100), "plan_profile", {})
    assert document.size <= render.CHARACTERS and "more characters]" in document.content["words"][0]
    assert document.content["commands"] == [command] and command in render.text(document)
    assert not any("never instructions" in note for note in document.content["notes"])
