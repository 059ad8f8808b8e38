"""Every recorded value of rocprof-compute is reproduced, but for what docs/reference/deviations*.toml list."""

from __future__ import annotations

import fnmatch
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support import oracle
from rooflens.tests.support.figures import evaluate
from rooflens.tests.support.recordings import stored
from rooflens.tools.import_profile import import_profile

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


@dataclass
class Compared:
    """The number of cells compared, differences that no entry allows, and uses of each entry."""

    cells: int = 0
    unlisted: list[Any] = field(default_factory=list)
    used: Counter[int] = field(default_factory=Counter)


def compare(store: Store, release: str, names: str = "*") -> Compared:
    """Compare the recorded workloads of a release, without those of RDNA; ``names`` is a pattern. All can be read."""
    found = Compared()
    for case in oracle.cases(release):
        if "RDNA35" in case["file"] or not fnmatch.fnmatchcase(case["file"], names):
            continue
        cells, different = oracle.compare(store, case)
        listed = [(d, _listed(d, release)) for d in different]
        found.cells += cells
        found.unlisted += [d for d, index in listed if index is None]
        found.used.update(index for _, index in listed if index is not None)
        print(f"{case['file']}: {cells} cells, {cells - len(different)} equal, {sum(found.used.values())} listed")
    return found


def test_values_of_release_3_8_agree_or_are_listed(shared: Path, tmp_path: Path) -> None:
    """tests/oracle compares all of them."""
    found = compare(Store(tmp_path), "3.8", "vcopy_iteration*MI350*")
    assert found.unlisted[:20] == [] and found.cells > 5_000


def test_what_is_not_normalised_is_the_same_under_every_normalisation(shared: Path, tmp_path: Path) -> None:
    """So the comparison with recorded values evaluates the others alone once more for each."""
    check_normalisations("3.3", "vcopy__MI100.csv.gz", tmp_path)


def check_normalisations(release: str, file: str, tmp_path: Path) -> None:
    """Fail if a normalisation changes what has none."""
    (case,) = (c for c in oracle.cases(release) if c["file"] == file)
    store = Store(tmp_path)
    manifest = oracle.workload(store, case)
    norms = ["per_kernel", *catalog.normalizations(manifest.arch or "")]
    first, *others = ({f.id: f for f in evaluate(store, manifest, ["*"], normalization=n)} for n in norms)
    fixed = {i: f for i, f in first.items() if not oracle.varies(f.metric)}
    assert len(fixed) > 150 and len(others) >= 2
    for other in others:
        assert {i: other[i] for i in fixed} == fixed


def test_the_time_is_of_the_pass_with_the_busy_cycles_or_the_first_of_the_joined_file(
    shared: Path, tmp_path: Path
) -> None:
    check_times("path__MI100", 22880, 62240 / 3, shared, tmp_path)


def check_times(case: str, theirs: float, ours: float, shared: Path, tmp_path: Path) -> None:
    """Fail if a folder has another mean time of its launches, as it is or with the times of the peer."""
    store, folder = Store(tmp_path / "store"), shared / "workloads38" / case
    recorded = {"workload": case, "file": f"{case}.csv.gz", "release": "3.8"}
    own = stored(store, folder).id
    taken = import_profile(store, str(oracle.retimed(folder, recorded, tmp_path)), name="times of the peer").workload
    times = [evaluate(store, workload, ["7.2.0"])[0].value for workload in (own, taken)]
    assert times == pytest.approx([ours, theirs], rel=1e-12)
