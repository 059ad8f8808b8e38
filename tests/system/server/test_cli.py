"""The command line as scripts and people use it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rooflens.analysis.store.store import Store
from rooflens.server import demo
from rooflens.server.cli import main
from rooflens.server.mcp.tool_calls import ask
from rooflens.server.mcp.toolbox import TOOLS
from rooflens.tools.base.results import Result


def _call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(argv)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_call_prints_the_structured_result_as_json(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _call(capsys, "call", "list_workloads", "{}", "--store", str(samples.root))
    assert status == 0
    assert json.loads(out)["table"]["total_rows"] == 2


def test_the_store_option_is_accepted_before_and_after_the_subcommand(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _call(capsys, "--store", str(samples.root), "call", "list_workloads")
    after = _call(capsys, "call", "--store", str(samples.root), "list_workloads")
    assert before[0] == after[0] == 0
    assert before[1] == after[1]


def test_a_refusal_is_exit_status_1_with_advice_on_stderr(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = _call(capsys, "--store", str(samples.root), "call", "compute_metrics", '{"workload": "nothing"}')
    assert (status, out) == (1, "")
    assert "list_workloads shows all" in err


@pytest.mark.parametrize("arguments", ["{", "[1]", "3"])
def test_arguments_that_are_no_json_object_are_usage_errors(capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    assert _call(capsys, "call", "list_workloads", arguments)[0] == 2


def test_an_unknown_tool_is_refused_with_near_names(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _call(capsys, "--store", str(samples.root), "call", "compute_metric")
    assert status == 1
    assert "compute_metrics" in err


def test_full_lifts_the_size_cap_and_default_tells_how_to_go_on(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = json.dumps({"workload": "yax_before", "metrics": ["*"], "detail": "full", "limit": 5000})
    _, short, _ = _call(capsys, "--store", str(samples.root), "call", "compute_metrics", arguments)
    _, whole, _ = _call(capsys, "--store", str(samples.root), "call", "--full", "compute_metrics", arguments)
    cut, full = json.loads(short), json.loads(whole)
    assert len(short) < 33_000 < len(whole)
    assert cut["table"]["truncated"] and cut["next"][0]["arguments"]["offset"] == len(cut["table"]["rows"])
    assert len(full["table"]["rows"]) == full["table"]["total_rows"] > 600


def test_tools_names_each_tool_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _call(capsys, "tools")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == [tool.name for tool in TOOLS]


def test_tools_of_one_tool_has_every_argument_with_its_values_default_and_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = _call(capsys, "tools", "list_workloads")
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines[1:]] == ["workload", "by", "limit", "offset"]
    assert lines[1].split(maxsplit=1)[1].startswith("string, optional: its kernels: id")
    assert 'kernel | launch | range, default "kernel"' in lines[2]
    assert "integer, default 20: most rows" in lines[3]
    _, told, _ = _call(capsys, "tools", "query_counters", "--json")
    first = json.loads(told)["arguments"][0]
    assert (first["name"], first["type"], first["required"]) == ("sql", "string", True)
    for tool in TOOLS:
        status, out, _ = _call(capsys, "tools", tool.name)
        assert [line.split()[0] for line in out.splitlines()[1:]] == list(tool.arguments.model_fields)
    status, _, err = _call(capsys, "tools", "list_workload")
    assert status == 1 and "list_workloads" in err


def test_doctor_names_every_check_and_fails_nobody(samples: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _call(capsys, "doctor", "--store", str(samples.root))
    assert status == 0
    assert "store" in out.lower()


def test_export_db_writes_a_database_that_any_duckdb_client_reads(
    samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.duckdb"
    assert _call(capsys, "--store", str(samples.root), "export-db", str(target))[0] == 0
    with duckdb.connect(str(target), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM counters").fetchone() == (2,)
        assert con.execute("SELECT count(*) FROM metrics WHERE status = 'ok'").fetchone()[0] > 50
        assert con.execute("SELECT comment FROM duckdb_columns() WHERE column_name = 'duration_ns' LIMIT 1").fetchone()[
            0
        ]
    assert _call(capsys, "--store", str(samples.root), "export-db", str(target))[0] == 1, "an existing file is kept"


def test_a_failed_export_leaves_no_file(samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _call(capsys, "--store", str(samples.root), "export-db", str(tmp_path / "no" / "out.duckdb"))[0] == 1
    assert list(tmp_path.iterdir()) == []


def test_demo_shows_kernels_metrics_sql_and_the_caveat_and_keeps_the_samples_in_a_named_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = _call(capsys, "demo", "--store", str(tmp_path / "kept"))
    assert status == 0 and "What this machine can reach" not in out
    for part in (
        "yax(double*",
        "l2.hit_rate_pct",
        "0.5228",
        "SELECT",
        "not like for like",
        "rocblas_dgemm_4096",
        "8 of 32 waves per CU (25 %), limited by lds",
        "claude mcp add",
    ):
        assert part in out, part
    kept = sorted(m.name for m in Store(tmp_path / "kept").scan()[0])
    assert kept == ["clover", "matmul_fp64", "yax_after", "yax_before"]


def test_demo_measures_this_machine_only_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Locks of its own: it measures, and would wait for another test that does.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)

    def ask_for_one_ceiling(store: Store, tool: str, arguments: dict[str, Any]) -> Result:
        more = {"device": "cpu", "ceilings": ["host.dram.copy"]} if tool == "run_peak_benchmarks" else {}
        return ask(store, tool, arguments | more)

    monkeypatch.setattr(demo, "ask", ask_for_one_ceiling)
    status, out, _ = _call(capsys, "demo", "--benchmark", "--store", str(tmp_path / "kept"))
    assert status == 0
    assert re.search(r"What this machine can reach.*host\.dram\.copy +\d", out, re.DOTALL), out


def test_demo_without_a_store_leaves_that_of_the_user_and_what_others_prepared_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLENS_STORE", str(tmp_path / "usual"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (victim := tmp_path / "victim").write_text("of another user")
    (trap := tmp_path / "rooflens-demo" / "plots").mkdir(parents=True)
    for name in ("matmul_fp64-roofline.png", "clover-occupancy.png"):
        (trap / name).symlink_to(victim)
    status, out, _ = _call(capsys, "demo", "--json")
    pictures = [Path(picture) for picture in json.loads(out)["pictures"]]
    assert status == 0 and len(pictures) == 4 and all(picture.stat().st_size for picture in pictures)
    assert not (tmp_path / "usual").exists() and not (tmp_path / "data").exists()
    assert victim.read_text() == "of another user" and pictures[0].parent != trap
    folders = [pictures[0].parent, pictures[0].parent.parent]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]
