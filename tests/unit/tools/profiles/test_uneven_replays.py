"""A launch whose replays lasted differently has no sound figures; launches of the same recording keep theirs."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from rooflens.analysis.diagnosis.findings import diagnose
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tools.import_profile import import_profile

RECORDING = ROOT / "eval" / "interventions" / "h200_counters.csv.gz"
UNEVEN, EVEN = "s2k096", "s2k016"


def test_uneven_replays_are_named_and_make_the_verdict_of_their_launch_unsure(tmp_path: Path) -> None:
    """Two recorded launches of an H200."""
    with gzip.open(RECORDING, "rt", newline="") as text:
        head, units, *launches = csv.reader(text)
    name = head.index("Kernel Name")
    with (tmp_path / "page.csv").open("w", newline="") as text:
        kept = [row for row in launches if row[name] in (UNEVEN, EVEN)]
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([head, units, *kept])
    store = Store(tmp_path / "store")
    import_profile(store, str(tmp_path / "page.csv"), name="two")
    manifest = store.resolve("two")
    (told,) = [w.text for w in manifest.warnings if w.code == "uneven_replays"]
    assert UNEVEN in told and EVEN not in told and "48 %" in told
    verdicts = {one.kernel: one.verdict for one in diagnose(Workload(store, manifest))[0]}
    uneven, even = verdicts[UNEVEN], verdicts[EVEN]
    assert uneven.confidence < 0.7
    assert "replays of this launch differ in duration by 48 %" in str(uneven.doubt)
    assert even.doubt is None
