"""One counter or the times of a launch four times too large or small: no verdict turns to another, sure of it."""

from __future__ import annotations

from pathlib import Path

from rooflens.analysis.store.doubts import DURATION
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.damage import Damage, outcomes
from rooflens.tests.support.recordings import stored

SAMPLE = ROOT / "server" / "samples" / "h200_kernels" / "kernels.csv.gz"


def misled(store: Store, path: Path, damages: list[Damage], work: Path) -> list[Damage]:
    found = list(outcomes(store, stored(store, path), damages, work))
    assert len(found) == len(damages)
    return [one.damage for one in found if one.misled]


def test_what_once_misled_verdicts_on_amd_is_doubted(shared: Path, tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), shared / "workloads" / "dispatch_0" / "MI200"
    (kernel,) = Workload(store, stored(store, path)).kernels
    damages = [(DURATION, 4.0), ("SQ_LEVEL_WAVES_ACCUM", 0.25), ("TCP_TOTAL_CACHE_ACCESSES_sum", 4.0)]
    damages += [("TCC_EA_RDREQ_sum", 1 / 64)]
    assert misled(store, path, [Damage(kernel, *d) for d in damages], tmp_path / "damaged") == []


def test_what_once_misled_verdicts_on_an_h200_is_doubted(tmp_path: Path) -> None:
    """Bytes, cycles, warps and instructions; the last one where a load is more by its work than by its cycles."""
    store = Store(tmp_path / "store")
    kernels = list(Workload(store, stored(store, SAMPLE)).kernels)
    counters = [("dram__bytes_write", 4.0), ("sm__cycles_elapsed", 0.25), ("l1tex__cycles_elapsed", 4.0)]
    padded = next(k for k in kernels if k.startswith("transpose_padded"))
    damages = [Damage(k, *d) for d in counters for k in kernels[:3]] + [Damage(padded, DURATION, 0.25)]
    assert misled(store, SAMPLE, damages, tmp_path / "damaged") == []
