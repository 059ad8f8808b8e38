"""A launch whose replays lasted differently has no sound figures; launches of the same recording keep theirs."""

from __future__ import annotations

import csv
import gzip

import pytest

from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store.store import Manifest, Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tools.import_profile import import_profile

RECORDING = ROOT / "eval" / "interventions" / "h200_counters.csv.gz"
UNEVEN, EVEN = "s2k096", "s2k016"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, dict[str, Diagnosis]]:
    """Two recorded launches of an H200."""
    folder = tmp_path_factory.mktemp("replays")
    with gzip.open(RECORDING, "rt", newline="") as text:
        head, units, *launches = csv.reader(text)
    name = head.index("Kernel Name")
    with (folder / "page.csv").open("w", newline="") as text:
        kept = [row for row in launches if row[name] in (UNEVEN, EVEN)]
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([head, units, *kept])
    store = Store(folder / "store")
    import_profile(store, str(folder / "page.csv"), name="two")
    manifest = store.resolve("two")
    return manifest, {one.kernel: one for one in diagnose(Workload(store, manifest))[0]}


def test_the_import_names_the_launch_and_by_how_much(recorded: tuple[Manifest, dict[str, Diagnosis]]) -> None:
    manifest, _ = recorded
    (told,) = [w.text for w in manifest.warnings if w.code == "uneven_replays"]
    assert UNEVEN in told and EVEN not in told and "48 %" in told


def test_its_verdict_is_unsure_with_the_reason_and_the_other_is_not(
    recorded: tuple[Manifest, dict[str, Diagnosis]],
) -> None:
    uneven, even = (recorded[1][kernel].verdict for kernel in (UNEVEN, EVEN))
    assert uneven.confidence < 0.7
    assert "replays of this launch differ in duration by 48 %" in str(uneven.doubt)
    assert even.doubt is None
