"""The command line as scripts and people use it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

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


def test_the_store_option_is_accepted_before_and_after_the_subcommand(
    samples: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _call(capsys, "--store", str(samples.root), "call", "list_workloads")
    after = _call(capsys, "call", "--store", str(samples.root), "list_workloads")
    assert before[0] == after[0] == 0
    assert before[1] == after[1]


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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools that a demo asks, of which one ceiling and one picture are enough."""
    asked, drawn = list[str](), list[Result]()

    def ask_for_one_ceiling_and_one_picture(store: Store, tool: str, arguments: dict[str, Any]) -> Result:
        asked.append(tool)
        if tool == "plot" and drawn:
            return drawn[0]
        more = {"device": "cpu", "ceilings": ["host.dram.copy"]} if tool == "run_peak_benchmarks" else {}
        answered = ask(store, tool, arguments | more)
        drawn.extend([answered] if tool == "plot" else [])
        return answered

    monkeypatch.setattr(demo, "ask", ask_for_one_ceiling_and_one_picture)
    return asked


def test_demo_shows_samples_and_their_caveat_and_measures_this_machine_if_asked(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Locks of its own: it measures, and would wait for another test that does.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    status, out, _ = _call(capsys, "demo", "--benchmark", "--store", str(tmp_path / "kept"))
    assert status == 0
    assert re.search(r"What this machine can reach.*host\.dram\.copy +\d", out, re.DOTALL), out
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
    assert {"clover", "matmul_fp64", "yax_after", "yax_before"} <= set(kept)


def test_demo_without_a_store_leaves_that_of_the_user_and_what_others_prepared_alone(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLENS_STORE", str(tmp_path / "usual"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (victim := tmp_path / "victim").write_text("of another user")
    (trap := tmp_path / "rooflens-demo" / "plots").mkdir(parents=True)
    for name in ("matmul_fp64-roofline.png", "clover-occupancy.png"):
        (trap / name).symlink_to(victim)
    status, out, _ = _call(capsys, "demo", "--json")
    assert "plot" in asked and "run_peak_benchmarks" not in asked
    pictures = [Path(picture) for picture in json.loads(out)["pictures"]]
    assert status == 0 and len(pictures) == 4 and all(picture.stat().st_size for picture in pictures)
    assert not (tmp_path / "usual").exists() and not (tmp_path / "data").exists()
    assert victim.read_text() == "of another user" and pictures[0].parent != trap
    folders = [pictures[0].parent, pictures[0].parent.parent]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]
