"""Thread traces by wave: covered and exposed cycles against a count of single cycles, and two captures of an MI300X."""

from __future__ import annotations

import json
import random
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests.unit.tools.profiles.rocprofv3.test_att import CODE, UI, written
from rooflens.tools.compare_workloads import compare_workloads
from rooflens.tools.find_hotspots import find_hotspots
from rooflens.tools.profiles.rocprofv3.waves import covered_cycles, read_waves


def wave_file(ui: Path, place: tuple[int, int, int, int], begin: int, rows: list[list[int]], cu: int = 1) -> None:
    """A wave on (shader engine, SIMD, slot, instance); rows are clock, type, stall, cycles, number."""
    end = max([begin, *(row[0] + max(row[2], row[3]) for row in rows)])
    wave = {"begin": begin, "end": end, "cu": cu, "instructions": rows, "timeline": [[1, 4], [2, 6], [3, 2]]}
    name = "se{}_sm{}_sl{}_wv{}.json".format(*place)
    (ui / name).write_text(json.dumps({"wave": wave}))


def made_waves(seed: int) -> list[tuple[tuple[int, int, int, int], int, list[list[int]]]]:
    """Waves on two SIMDs with random instructions, of which some overlap the one before."""
    rng = random.Random(seed)
    waves = []
    for slot in range(6):
        begin = now = rng.randrange(60)
        rows = []
        for _ in range(rng.randrange(1, 12)):
            now = max(begin, now + rng.randrange(-2, 9))
            stall = rng.choice((0, 0, rng.randrange(20)))
            rows.append([now, 1, stall, stall + rng.randrange(5), rng.randrange(4)])
            now += rows[-1][3]
        waves.append(((0, slot % 2, slot, 0), min(begin, rows[0][0]), rows))
    return waves


def counted_by_cycle(waves: list[tuple[tuple[int, int, int, int], int, list[list[int]]]]) -> dict[int, tuple[int, ...]]:
    """Number -> executions, covered and exposed cycles, by asking for each cycle which waves were busy in it."""
    busy: dict[int, set[tuple[int, int]]] = defaultdict(set)  # cycle -> (SIMD, slot)
    for (_, simd, slot, _), _, rows in waves:
        for clock, _, stall, cycles, _ in rows:
            for cycle in range(clock + stall, clock + cycles):
                busy[cycle].add((simd, slot))
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (_, simd, slot, _), begin, rows in waves:
        last = begin
        for clock, _, stall, cycles, number in rows:
            waiting = [*range(min(last, clock), clock), *range(clock, clock + stall)]
            covered = sum(any(s == simd and other != slot for s, other in busy[cycle]) for cycle in waiting)
            sums[number][0] += 1
            sums[number][1] += covered
            sums[number][2] += len(waiting) - covered + cycles - stall
            last = max(last, clock + cycles)
    return {number: tuple(row) for number, row in sums.items()}


@pytest.mark.parametrize("seed", range(3))
def test_covered_and_exposed_cycles_are_those_of_a_count_of_every_cycle(tmp_path: Path, seed: int) -> None:
    waves = made_waves(seed)
    for wave in waves:
        wave_file(tmp_path, *wave)
    found, unread = read_waves(tmp_path)
    assert unread == 0 and len(found) == 6
    covered = {n: (c.executed, c.hidden, c.exposed) for n, c in covered_cycles(found).items()}
    assert covered == counted_by_cycle(waves)


def test_waves_of_another_compute_unit_cover_nothing(tmp_path: Path) -> None:
    rows = [[10, 1, 0, 4, 2], [40, 9, 20, 24, 3]]
    wave_file(tmp_path, (0, 0, 0, 0), 0, rows)
    wave_file(tmp_path, (0, 0, 1, 0), 0, [[15, 1, 0, 40, 2]], cu=2)
    covered = covered_cycles(read_waves(tmp_path)[0])
    assert covered[3].hidden == 0 and covered[3].exposed == 26 + 24


def test_hotspots_tell_what_other_waves_covered(bench: Any) -> None:
    ui = written(bench.folder, [[*row[:6], 0, 0, 0, 0] for row in CODE[:1]] + [[*CODE[4][:6], 2, 190, 170, 10]])
    wave_file(ui, (0, 0, 0, 0), 0, [[0, 9, 100, 110, 5]])
    wave_file(ui, (0, 0, 1, 0), 0, [[10, 9, 70, 80, 5]])
    done = bench.load(ui)
    assert bench.rows(done, "instructions", "hidden_cycles, exposed_cycles", "executed = 2") == [(10, 190)]
    found = find_hotspots(bench.store, by="instruction")
    first = dict(zip(found.hotspots.columns, found.hotspots.rows[0], strict=True))
    assert first["hidden_pct"] == 5.0
    assert any("during 5 % of these cycles" in note and "95 % are exposed" in note for note in found.notes)
    assert done.warnings == []


CAPTURE = {1: (808, 9412, 2800, 5692, 36), 3: (5340, 89_496, 67_244, 11_032, 32)}
"""Dispatch -> hits, latency, stall and idle that AMD's decoder wrote for all instructions, and waves of the engine."""


@pytest.fixture(scope="module")
def captured(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public capture of an MI300X with two launches (HGLiu1998/batched_gemm)."""
    folder = tmp_path_factory.mktemp("captured")
    (archive,) = (shared / "public" / "att_mi300x").glob("*.tar.xz")
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters.
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next(folder.iterdir())


@pytest.mark.parametrize("dispatch", CAPTURE)
def test_the_waves_of_a_capture_add_up_to_what_the_decoder_says_of_every_instruction(
    captured: Path, dispatch: int
) -> None:
    ui = captured / f"ui_output_agent_60367_dispatch_{dispatch}"
    covered = covered_cycles(read_waves(ui)[0])
    code = [row for row in json.loads((ui / "code.json").read_text())["code"] if not row[0].startswith(";")]
    for _, _, number, _, _, _, hits, latency, _, idle in code:
        one = covered.get(number)
        assert (one.executed, one.hidden + one.exposed) == (hits, latency + idle) if one else hits == 0
    sums = tuple(sum(row[column] for row in code) for column in (6, 7, 8, 9))
    assert sums == CAPTURE[dispatch][:4]


def test_the_whole_folder_of_the_capture_tells_its_two_kernels_apart(bench: Any, captured: Path) -> None:
    """The database beside the raw traces alone says how to decode them."""
    done, told = bench.load(captured), "a raw thread trace: rocprofv3 --att decodes it right after recording"
    (raw,) = {file.parent for file in captured.rglob("*.att")}
    assert any(told in text for text in bench.load(raw).warnings)
    assert not any(told in text for text in done.warnings)
    counts = bench.rows(done, "waves", "kernel, count(*)", "true GROUP BY kernel ORDER BY 2")
    assert [count for _, count in counts] == [32, 36]
    assert "batched_matrix_multiplication" in counts[0][0] and "fillBuffer" in counts[1][0]
    assert UI not in done.name
    # Nothing is hidden where each SIMD has one wave; the decoder rounds the states of a wave to its 4 cycles.
    cycles = sum(latency + idle for _, latency, _, idle, _ in CAPTURE.values())
    assert bench.rows(done, "instructions", "sum(hidden_cycles), sum(exposed_cycles)") == [(0, cycles)]
    states = "idle_cycles + exec_cycles + wait_cycles + stall_cycles - (end_cycle - start_cycle)"
    assert all(abs(n) <= 4 for (n,) in bench.rows(done, "waves", states, "instructions IS NOT NULL"))


def test_two_captures_are_compared_line_by_line(bench: Any) -> None:
    """The same code; in the second a second wave on the SIMD executes while the first waits, and line 11 got slower."""
    for folder, cycles in (("one", 100), ("two", 700)):
        code = [[*row[:6], 0, 0, 0, 0] for row in CODE[:1]]
        code += [[*CODE[4][:6], 1, 300, 200, 0], [*CODE[5][:6], 1, cycles, 0, 0]]
        ui = written(bench.folder / folder, code)
        wave_file(ui, (0, 0, 0, 0), 0, [[0, 9, 200, 300, 5], [300, 2, 0, cycles, 6]])
        if folder == "two":
            wave_file(ui, (0, 0, 1, 0), 0, [[0, 1, 0, 150, 99]])
        bench.load(ui, name=folder)
    compared = compare_workloads(bench.store, "one", "two")
    assert compared.lines is not None
    rows = {row[0].split(" ")[0]: row[1:] for row in compared.lines.rows}
    assert rows["k.hip:11"] == [25.0, 70.0, 45.0, None, "unknown"]
    assert rows["k.hip:12"] == [75.0, 30.0, -45.0, None, "unknown"]
    assert compared.kernels.rows[0][1:] == [400, 1000]
    assert "45.0 points of the cycles" in compared.answer
    assert any("covered 0 % of them in the baseline and 15 % in the candidate" in note for note in compared.notes)
