"""Every recorded value of rocprof-compute is reproduced, but for what docs/reference/deviations*.toml list."""

from __future__ import annotations

import fnmatch
import importlib.util
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.figures import evaluate
from rooflens.tools.import_profile import import_profile


def _oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oracle", ROOT / "tests" / "support" / "oracle.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["oracle"] = module
    spec.loader.exec_module(module)
    return module


oracle = _oracle()
PAGES = {"3.3": "deviations.toml", "3.8": "deviations_38.toml"}
REFERENCE = ROOT / "docs" / "reference"
EVERY = {r: tomllib.loads((REFERENCE / p).read_text(encoding="utf-8"))["deviation"] for r, p in PAGES.items()}
GENERAL = ("rounded", "not_shown")
LISTED: dict[str, list[dict[str, Any]]] = {
    release: sorted(
        # The points of the roofline are checked by test_roofline.py, RDNA by test_rdna.py.
        (e for e in entries if not e["ids"][0].startswith("roofline.") and e["gpus"] != ["gfx1151"]),
        key=lambda entry: (entry["kind"] != "peer_formula", entry["kind"] in GENERAL),  # narrow reasons first
    )
    for release, entries in EVERY.items()
}


def _listed(difference: Any, release: str) -> int | None:
    """The entry that allows a difference: its id, target and column are named and the kind's own rule holds."""
    for index, entry in enumerate(LISTED[release]):
        if (
            difference.arch in entry["gpus"]
            and (difference.field in entry["fields"] or entry["fields"] == ["*"])
            and any(fnmatch.fnmatchcase(difference.case, pattern) for pattern in entry.get("cases", ["*"]))
            and any(fnmatch.fnmatchcase(difference.id, pattern) for pattern in entry["ids"])
            and _fits(entry["kind"], difference)
        ):
            return index
    return None


def _fits(kind: str, difference: Any) -> bool:
    """What a kind of deviation allows beyond its name."""
    reason, empty, shown = difference.reason or "", difference.ours == "", difference.theirs not in ("", "N/A")
    if kind == "no_timing":
        return empty and "timing" in reason and difference.case.startswith("vcopy__MI300")
    if kind == "no_clock":
        return empty and (difference.field in ("Peak", "Pct of Peak") or "clk" in reason)
    if kind == "rounded":
        return not empty and shown and float(round(float(difference.ours))) == float(difference.theirs)
    if kind == "not_shown":
        return not empty and not shown
    if kind == "zero_denominator":
        return not empty or "denominator is zero" in reason or "no value" in reason
    if kind == "clamped":
        return not empty and shown
    return True


def _compare(store: Store, release: str) -> tuple[int, list[Any], Counter[int], set[str]]:
    """Cells compared, differences that no entry allows, uses of each entry, and the profiles that cannot be read."""
    cells, unlisted, used, unread = 0, [], Counter[int](), set()
    for case in (c for c in oracle.cases(release) if "RDNA35" not in c["file"]):
        try:
            count, different = oracle.compare(store, case)
        except BadInput:
            unread.add(case["file"])
            continue
        found = [(d, _listed(d, release)) for d in different]
        unlisted += [d for d, index in found if index is None]
        used.update(index for _, index in found if index is not None)
        cells += count
        listed = sum(index is not None for _, index in found)
        print(f"{case['file']}: {count} cells, {count - len(different)} equal, {listed} listed")
    return cells, unlisted, used, unread


def test_all_values_of_release_3_8_agree_or_are_listed(shared: Path, tmp_path: Path) -> None:
    check_release("3.8", 100_000, tmp_path)


def check_release(release: str, least: int, folder: Path) -> None:
    """Fail if fewer cells are compared, or one of them differs without an entry, or an entry is not needed."""
    cells, unlisted, used, unread = _compare(Store(folder), release)
    print(f"{cells} cells compared, {sum(used.values())} differ as listed in {len(LISTED[release])} entries")
    assert unlisted[:20] == []
    assert cells > least and not unread
    assert [e["ids"] for i, e in enumerate(LISTED[release]) if not used[i]] == [], "entries that no longer differ"


@pytest.mark.parametrize(
    ("release", "file"),
    [
        ("3.3", "vcopy__MI100.csv.gz"),
        ("3.3", "vcopy__MI200.csv.gz"),
        ("3.3", "vcopy__MI300X_A1.csv.gz"),
        ("3.8", "vcopy__MI350.csv.gz"),
    ],
)
def test_what_is_not_normalised_is_the_same_under_every_normalisation(
    release: str, file: str, shared: Path, tmp_path: Path
) -> None:
    """So the comparison with recorded values evaluates the others alone once more for each."""
    (case,) = (c for c in oracle.cases(release) if c["file"] == file)
    store = Store(tmp_path)
    manifest = oracle.workload(store, case)
    norms = ["per_kernel", *catalog.normalizations(manifest.arch or "")]
    first, *others = ({f.id: f for f in evaluate(store, manifest, ["*"], normalization=n)} for n in norms)
    fixed = {i: f for i, f in first.items() if not oracle.varies(f.metric)}
    assert len(fixed) > 150 and len(others) >= 2
    for other in others:
        assert {i: other[i] for i in fixed} == fixed


@pytest.mark.parametrize(
    ("case", "theirs", "ours"), [("vcopy__MI100", 20640, 20640), ("path__MI100", 22880, 62240 / 3)]
)
def test_the_time_is_of_the_pass_with_the_busy_cycles_unless_the_joined_file_starts_with_another(
    case: str, theirs: float, ours: float, shared: Path, tmp_path: Path
) -> None:
    store, folder = Store(tmp_path / "store"), shared / "workloads38" / case
    recorded = {"workload": case, "file": f"{case}.csv.gz", "release": "3.8"}
    own = import_profile(store, str(folder)).workload
    taken = import_profile(store, str(oracle.retimed(folder, recorded, tmp_path)), name="times of the peer").workload
    times = [evaluate(store, workload, ["7.2.0"])[0].value for workload in (own, taken)]
    assert times == pytest.approx([ours, theirs], rel=1e-12)
