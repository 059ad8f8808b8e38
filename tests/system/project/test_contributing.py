"""CONTRIBUTING.md holds: its examples, in a folder of their own, add a target, a metric and a rule that answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests import ROOT

CATALOGUE = ROOT / "analysis" / "catalogue"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```toml\n# (\S+/\S+)\n(.*?)```", GUIDE, re.DOTALL))
"""File of the catalogue -> its content."""
EXTENSION = dict(re.findall(r"```\w+\n# (rooflens_\w+\.py|pyproject\.toml)\n(.*?)```", GUIDE, re.DOTALL))
"""File of the package with a reader -> its content."""
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


def test_every_folder_of_code_stands_in_the_tree() -> None:
    tree = set(re.findall(r"\w+(?=/)", GUIDE.partition("## The folders")[2].partition("[The glossary]")[0]))
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
    assert any("100 % of the accesses to the vector L1 are loads." in f["claim"] for f in kernel["findings"])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder in which the package of the guide is installed, beside one whose module is missing."""
    site = tmp_path / "site"
    described = tomllib.loads(EXTENSION["pyproject.toml"])["project"]
    broken = {"name": "rooflens-broken", "entry-points": {"rooflens.readers": {"broken": "rooflens_missing:READER"}}}
    for project in (described, {"version": "2", **broken}):
        package = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        lines = (
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in project["entry-points"].items()
        )
        (package / "entry_points.txt").write_text("".join(lines))
    (site / "rooflens_acmeprof.py").write_text(EXTENSION["rooflens_acmeprof.py"], encoding="utf-8")
    return site


ACME = """kernel,threads,block,start_us,end_us,SQ_WAVES,TCC_HIT_sum
saxpy,1048576,256,10.5,30.75,16384,
saxpy,1048576,256,40,61,16384,70000
"""


def rooflens(site: Path, *commands: list[str]) -> list[dict[str, Any]]:
    """What commands print, one after the other in one process, where the packages in ``site`` are installed."""
    program = "import json, sys; from rooflens.server.cli import main; [main(c) for c in json.loads(sys.argv[1])]"
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    found, text = [], done.stdout.strip()
    while text:
        answer, end = json.JSONDecoder().raw_decode(text)
        found, text = [*found, answer], text[end:].strip()
    return found


def test_the_reader_of_another_package_imports_its_profiles(site: Path, tmp_path: Path) -> None:
    profile, wrong, call = tmp_path / "run.acme.csv", tmp_path / "wrong.acme.csv", ["call", "--store", str(tmp_path)]
    profile.write_text(ACME)
    wrong.write_text("kernel,threads\nsaxpy,many\n")
    sql = (
        "SELECT d.kernel, grid, workgroup_size, d.duration_ns, SQ_WAVES, TCC_HIT_sum "
        "FROM counters JOIN dispatches d USING (workload, dispatch_id) ORDER BY dispatch_id"
    )
    done, answer, refused = rooflens(
        site,
        [*call, "import_profile", json.dumps({"path": str(profile)})],
        [*call, "query_counters", json.dumps({"sql": sql})],
        [*call, "--json", "import_profile", json.dumps({"path": str(wrong)})],
    )
    assert (done["format"], done["dispatches"], done["arch"], done["name"]) == ("acmeprof", 2, "gfx90a", "run")
    assert answer["table"]["rows"] == [
        ["saxpy", 1048576, 256, 20250, 16384, None], ["saxpy", 1048576, 256, 21000, 16384, 70000],
    ]  # fmt: skip
    assert refused["error"]["code"] == "bad_input" and "wrong.acme.csv is not a CSV file" in refused["error"]["what"]


def test_doctor_lists_extensions_and_says_which_cannot_be_loaded(site: Path, tmp_path: Path) -> None:
    (report,) = rooflens(site, ["doctor", "--json", "--store", str(tmp_path)])
    checks = {check["name"]: check for check in report["checks"]}
    readers = {name: checks[f"extension {name} (readers)"] for name in ("acmeprof", "perf", "broken")}
    assert readers["acmeprof"]["state"] == readers["perf"]["state"] == "ok"
    assert "rooflens-acmeprof 1.0: CSV of acmeprof" in readers["acmeprof"]["found"]
    assert checks["extension perf (drivers)"]["found"].endswith("perf for cpu")
    broken = readers["broken"]
    assert broken["state"] == "warning" and "rooflens_missing" in broken["found"] and "uninstall" in broken["fix"]


DRIVER = """
from rooflens.tools.device.machine.profilers import ProfilerProgram
from rooflens.tools.running.drivers.rocprof import V2

class AcmeDriver(type(V2)):
    NAME = "acmerun"
    PROGRAM = ProfilerProgram("acmerun", "amd", ("opt/acme/bin",), r"acmerun ([0-9.]+)")

DRIVER = AcmeDriver()
"""


def test_the_driver_of_another_package_plans_profiles_and_its_program_is_looked_for(site: Path, tmp_path: Path) -> None:
    (site / "rooflens_acmerun.py").write_text(DRIVER)
    (site / "rooflens_acmeprof-1.0.dist-info" / "entry_points.txt").write_text(
        "[rooflens.drivers]\nacmerun = rooflens_acmerun:DRIVER\n"
    )
    question = {"gpu": "MI250X", "metrics": ["l2.hit_rate_pct"], "profiler": "acmerun", "detail": "full"}
    (plan,) = rooflens(site, ["call", "--store", str(tmp_path), "plan_profile", json.dumps(question)])
    assert {command["argv"][0] for command in plan["commands"]} == {"acmerun"}
    program = "from rooflens.tools.device.machine.profilers import programs; print([p.name for p in programs()])"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True
    )
    assert "'acmerun'" in done.stdout, done.stderr


def test_the_catalogue_files_of_another_package_are_used(site: Path, folder: Path) -> None:
    (site / "rooflens_acmeprof-1.0.dist-info" / "entry_points.txt").write_text(
        "[rooflens.catalogue]\nacme = rooflens_acme_gpus\n"
    )
    shutil.move(folder, site / "rooflens_acme_gpus")
    program = "from rooflens.analysis.catalogue.targets import gpu; print(gpu('gfx90f').title)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True
    )
    assert done.stdout == "AMD Instinct MI290 (an example)\n", done.stderr


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
