"""What the queries of the engine take of a process's address space, of which a client's call has 3 GB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored

RECORDING = ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz"
COMPARED = """
import resource, sys
from pathlib import Path
from rooflens.analysis.base import database
from rooflens.analysis.comparison.compare import compare
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload

database._threads = lambda: 8
store = Store(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
manifest = store.resolve("latest").model_copy(update={"sampled": True})
with Workload.open(store, manifest) as before, Workload.open(store, manifest) as after:
    print(len(compare(before, after, kernel="^transpose").pairs))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit the address space")
def test_two_sampled_profiles_are_compared_by_eight_threads_in_two_gigabytes(tmp_path: Path) -> None:
    """It took 6.6 GB when every aggregate held all columns."""
    store = Store(tmp_path / "store")
    stored(store, RECORDING)
    done = subprocess.run(
        [sys.executable, "-c", COMPARED, str(store.root)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
