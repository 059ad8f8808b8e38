"""CONTRIBUTING.md holds: its examples, in a folder of their own, add a target, a metric and a rule that answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CATALOGUE = ROOT / "analysis" / "catalogue"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```toml\n# (\S+)\n(.*?)```", GUIDE, re.DOTALL))
"""File -> its content."""
PROGRAM = """
import json, sys
from pathlib import Path
from rooflens.analysis.store.store import Store
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile
from rooflens.tools.plan_profile import plan_profile
from rooflens.tools.search_metrics import search_metrics

store = Store(Path(sys.argv[1]))
answers = [
    import_profile(store, sys.argv[2], name="w"),
    compute_metrics(store, "w", ["vl1d.load_share_pct", "l2.hit_rate_pct"]),
    search_metrics(store, "share of loads", gpu="gfx90f"),
    plan_profile(store, gpu="gfx90f", metrics=["vl1d.load_share_pct", "roofline"]),
    diagnose_bottleneck(store, "w", top_n=9),
]
print(json.dumps([answer.model_dump(mode="json") for answer in answers]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples of the guide."""
    for name, text in EXAMPLES.items():
        file = tmp_path / "mine" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "mine"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The profile of a sample, as if taken on the target of the guide."""
    profile = tmp_path / "profile"
    shutil.copytree(ROOT / "server" / "samples" / "yax_before", profile)
    sysinfo = profile / "sysinfo.csv"
    sysinfo.write_text(sysinfo.read_text().replace("gfx90a", "gfx90f").replace("MI250X", "MI290"))
    return profile


def python(folder: Path | None, program: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ROOFLENS_CATALOGUE": str(folder or "")}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_the_guide_has_an_example_of_each() -> None:
    assert [Path(name).parent.name for name in EXAMPLES] == ["gpus", "metrics", "rules"]


def test_every_folder_of_code_stands_in_the_tree() -> None:
    tree = set(re.findall(r"\w+(?=/)", GUIDE.partition("## The folders")[2].partition("Layers go one way")[0]))
    folders = {
        init.parent for layer in ("server", "api", "tools", "analysis") for init in (ROOT / layer).rglob("__init__.py")
    }
    missing = {str(f.relative_to(ROOT)) for f in folders if f.name not in tree}
    of_a_profiler = ("tools/profiles/", "tools/running/drivers/")
    assert {name for name in missing if not name.startswith(of_a_profiler)} == set()


def test_every_file_that_it_names_is_there() -> None:
    named = {name for name in re.findall(r"`([\w./-]+/[\w.-]+)`", GUIDE) if not name.startswith("..")}
    roots = (ROOT, CATALOGUE)
    assert {name for name in named if not any((root / name).exists() for root in roots)} == set()
    assert len(named) > 20


def test_a_target_a_metric_and_a_rule_of_a_folder_answer(folder: Path, profile: Path, tmp_path: Path) -> None:
    done = python(folder, PROGRAM, tmp_path / "store", profile)
    assert done.returncode == 0, done.stderr
    imported, computed, search, plan, diagnosis = json.loads(done.stdout)
    assert imported["arch"] == "gfx90f"
    share, hits = rows(computed["table"])
    assert (share["name"], share["status"], share["id"]) == ("vl1d.load_share_pct", "ok", "90.1.0")
    assert share["avg"] == pytest.approx(100 * 1073774592 / 1073905664, rel=1e-3)
    assert (hits["name"], hits["status"]) == ("l2.hit_rate_pct", "ok"), "the metrics of its family are there too"
    assert rows(search["table"])[0]["name"] == "vl1d.load_share_pct"
    counters = set(json.dumps(plan["passes"]).replace('"', " ").split())
    assert {"TCP_TOTAL_READ_sum", "TCP_TOTAL_ACCESSES_sum"} <= counters
    assert "SQ_INSTS_VALU_FMA_F16" in counters, "known for gfx90a and its successors only, which it is like"
    (kernel,) = diagnosis["kernels"]
    assert "100 % of the accesses to the vector L1 are loads." in [f["claim"] for f in kernel["findings"]]


def test_without_the_folder_the_target_is_unknown(profile: Path, tmp_path: Path) -> None:
    done = python(None, PROGRAM, tmp_path / "store", profile)
    assert done.returncode != 0
    assert "gfx90f" in done.stderr


SHOW = "from rooflens.analysis.catalogue.targets import gpu; print(gpu('gfx90a').title)"


def test_a_file_of_the_folder_takes_the_place_of_ours(folder: Path) -> None:
    ours = (CATALOGUE / "gpus" / "gfx90a.toml").read_text(encoding="utf-8")
    (folder / "gpus" / "gfx90a.toml").write_text(re.sub(r'(?m)^title = ".*"$', 'title = "mine"', ours))
    assert python(folder, SHOW).stdout == "mine\n"


def test_all_files_in_use_are_listed_once(folder: Path) -> None:
    program = "from rooflens.analysis.catalogue import files; print(*files.all_files(), sep='\\n')"
    listed = python(folder, program).stdout.splitlines()
    shipped = [
        p for name in ("gpus", "metrics", "products", "rules", "work") for p in (CATALOGUE / name).glob("*.toml")
    ]
    assert sorted(listed) == sorted(map(str, [*shipped, *folder.rglob("*.toml")]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("like =", "alike ="), "BadInput: The GPU target of gfx90f.toml is not valid. alike: Extra inputs"),
        (('"gfx90f"', '"gfx90f'), "BadInput: The data file gfx90f.toml is not valid TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(folder: Path, change: tuple[str, str], message: str) -> None:
    file = folder / "gpus" / "gfx90f.toml"
    file.write_text(file.read_text(encoding="utf-8").replace(*change, 1), encoding="utf-8")
    assert message in python(folder, SHOW.replace("gfx90a", "gfx90f")).stderr


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "ROOFLENS_CATALOGUE is not a folder" in python(tmp_path / "none", SHOW).stderr
