"""What a check of counters leaves in a store: verdicts that metrics tell, a report that names no machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rooflens.analysis.counter_check import check_records
from rooflens.analysis.store.store import Store
from rooflens.tests.unit.tools.device.counter_check.conftest import Plant, Played
from rooflens.tools import get_run
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.running import counter_check
from rooflens.tools.running import start as launch
from rooflens.tools.running.run_state import ProfileRun, RunState, write
from rooflens.tools.search_metrics import search_metrics

HOST, UUID = "secret-host.example", "GPU-1234-canary"


def _concluded(played: Played, folder: Path) -> tuple[Store, Path]:
    """A store of its own with the run of a check that has ended."""
    store = Store(shutil.copytree(played.store.root, folder / "store"))
    run_id, run_folder = launch.new_run(store)
    (run_folder / counter_check.FOLDER).mkdir()
    plan = [one.model_dump() for one in played.launches]
    (run_folder / counter_check.FOLDER / counter_check.PLAN).write_text(json.dumps(plan))
    kernels = {**played.said, "known_add": {"right": False, "wrong": "3 of 512 results are wrong"}}
    said = {"compiler": "clang (/home/canary/llvm/bin/clang)", "kernels": kernels}
    (run_folder / counter_check.FOLDER / counter_check.RESULTS).write_text(json.dumps(said))
    run = ProfileRun(run_id=run_id, name="check", timeout_s=1, host=HOST, device_uuid=UUID, profiler="rocprofv3",
                     profiler_version="1.0.0", command="python /home/canary/x", cwd="/home/canary")  # fmt: skip
    write(run_folder, run)
    result = counter_check.conclude_check(store, run_folder, played.workload)
    write(run_folder, RunState(state="done", activity="done", result=result, ended_ns=run.created_ns))
    return store, run_folder


@pytest.fixture(scope="module")
def checked(played: Callable[[str], Played], tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """The check of an MI300X; read it, do not write to it."""
    return _concluded(played("gfx942"), tmp_path_factory.mktemp("checked"))


def test_metrics_say_that_they_are_confirmed_and_a_report_names_no_machine(checked: tuple[Store, Path]) -> None:
    store, run_folder = checked
    answer = compute_metrics(store, "latest", ["dispatch.waves", "dispatch.cpc_stall_pct"], detail="full")
    place = answer.table.columns.index("checked")
    told = {row[1]: row[place] for row in answer.table.rows}
    assert told["dispatch.waves"] == "confirmed here"
    assert told["dispatch.cpc_stall_pct"] is None
    assert any("confirmed 1 of these" in note for note in answer.notes)
    assert any("Confirmed by check_counters" in note for note in search_metrics(store, "dispatch.waves").notes)
    for name in (counter_check.REPORT, counter_check.PAGE):
        text = (run_folder / counter_check.FOLDER / name).read_text()
        assert not [word for word in ("canary", HOST, str(store.root), "/home") if word in text]
        assert "dispatch.waves" in text and "GRBM_GUI_ACTIVE" in text


def test_a_short_answer_has_all_that_does_not_hold_and_warns_of_wrong_results(
    played: Callable[[str], Played], planted: Plant, tmp_path: Path
) -> None:
    planted({"cdna_10_instruction_mix.toml": [('num = "SQ_INSTS_SALU"', 'num = "2 * SQ_INSTS_SALU"')]})
    store, _ = _concluded(played("gfx942"), tmp_path)
    whole = get_run.get_run(store, "latest")
    assert whole.check is not None and whole.questions is not None
    assert whole.check.total_rows == len(whole.check.rows) > 390
    short = whole.brief({}).check
    assert short is not None and len(short.rows) < 20
    assert {row[0] for row in short.rows if row[1] == "off"} == {"salu.instructions", "salu.chart_instructions"}
    assert any("known_add: 3 of 512 results are wrong" in note for note in whole.notes)
    answer = compute_metrics(store, "latest", ["salu.instructions"], detail="full")
    assert any("found salu.instructions off by 2 " in note for note in answer.notes)


def test_a_formula_that_changed_since_is_not_confirmed(checked: tuple[Store, Path], planted: Plant) -> None:
    store, _ = checked
    manifest = store.resolve("latest")
    assert check_records.known_checks(store, manifest)["dispatch.gpu_cycles"].verdict == "holds"
    planted({"cdna_00_terms.toml": [('gui = "GRBM_GUI_ACTIVE / num_xcd"', 'gui = "GRBM_GUI_ACTIVE"')]})
    known = check_records.known_checks(store, manifest)
    assert "dispatch.gpu_cycles" not in known
    assert known["dispatch.waves"].verdict == "holds"


def test_damaged_files_of_checks_confirm_nothing_and_stop_nothing(checked: tuple[Store, Path], tmp_path: Path) -> None:
    store = Store(shutil.copytree(checked[0].root, tmp_path / "store"))
    for number, text in enumerate(("", "[" * 10_000, '{"target": 1}', "\0")):
        (store.root / "check" / f"0{number}").mkdir()
        (store.root / "check" / f"0{number}" / "zz.json").write_text(text)
    assert len(check_records.records(store)) == 1
    assert store.scan()[1] == [], "what was found is a part of the store"
    assert check_records.known_checks(store, store.resolve("latest"))
