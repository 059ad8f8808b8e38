"""Questions to workloads of many ranks: balance, who is waited for, clocks of hosts, and why one rank takes longer."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import LimitExceeded, NotFound
from rooflens.analysis.base.temporary_files import private_folder
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.slow_rank import slow_rank
from rooflens.analysis.workload import Workload
from rooflens.tests.made.chrome import complete, trace, write
from rooflens.tests.support.bench import Bench
from rooflens.tools.compute_timeline import TimelineResult, compute_timeline
from rooflens.tools.diagnose_bottleneck import diagnose_bottleneck
from rooflens.tools.import_profile import import_profile
from rooflens.tools.profiles import import_to_store
from rooflens.tools.profiles.import_to_store import as_one_folder, matches

STEPS, COMPUTE_US, TALK_US = 12, 100.0, 20.0
DAYS_US = 3 * 86_400e6


def training(
    folder: Path, slow: dict[int, float], hosts: dict[int, str], *, collectives: bool = True, lacking: str | None = None
) -> Path:
    """Traces of ranks that compute, then wait for all in an all-reduce; each host has a clock of its own.

    ``slow`` is how much longer than COMPUTE_US a rank's kernel takes, in us; the host ``lacking`` was recorded without
    the first all-reduce.
    """
    latest = max(slow.values())
    for rank, host in hosts.items():
        clock = DAYS_US * sorted(set(hosts.values())).index(host)
        events: list[dict[str, Any]] = []
        for n in range(STEPS):
            at = clock + 1000.0 + n * (COMPUTE_US + latest + TALK_US + 30)
            compute = COMPUTE_US + slow.get(rank, 0.0)
            talk = TALK_US + latest - slow.get(rank, 0.0)
            named = [("gemm", at + 10, compute, 2 * n)]
            if collectives and (n or host != lacking):
                named.append(("ncclDevKernel_AllReduce_Sum_f32", at + 10 + compute, talk, 2 * n + 1))
            for name, start, length, number in named:
                call = {"correlation": number}
                events.append(complete("cuda_runtime", "cudaLaunchKernel", start - 5, 2.0, pid=40, args=call))
                args = {"device": 0, "stream": 7, "grid": [4, 1, 1], "block": [128, 1, 1], **call}
                events.append(complete("kernel", name, start, length, pid=0, args=args))
        stated = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(hosts)}}
        name = f"{host}_40.17908570261234567{rank:02}.pt.trace.json"
        write(folder / "run" / name, trace(events, baseTimeNanoseconds=0, **stated))
    return folder / "run"


HOSTS = {0: "node0", 1: "node0", 2: "node1", 3: "node1"}


def told(folder: Path, slow: dict[int, float], **options: Any) -> tuple[Store, TimelineResult]:
    store = Store(folder / "store")
    done = import_profile(store, str(training(folder, slow, HOSTS, **options)))
    assert "One workload of 4 ranks on 2 hosts." in done.notes
    return store, compute_timeline(store, done.workload)


def figure(found: TimelineResult, name: str) -> float | None:
    return next(row[1] for row in found.figures.rows if row[0] == name)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, TimelineResult]:
    return told(tmp_path_factory.mktemp("uneven"), {0: 0.0, 1: 0.0, 2: 100.0, 3: 0.0})


def test_efficiencies_are_mean_and_maximum_of_computation(uneven: tuple[Store, TimelineResult]) -> None:
    found = uneven[1]
    assert figure(found, "load_balance_pct") == pytest.approx(100 * 125 / 200, rel=1e-3)
    assert figure(found, "slowest_rank_over_mean_pct") == pytest.approx(60, rel=1e-3)
    whole = figure(found, "parallel_efficiency_pct")
    parts = [figure(found, name) for name in ("load_balance_pct", "communication_efficiency_pct")]
    assert whole == pytest.approx(parts[0] * parts[1] / 100, rel=1e-3)


def test_clocks_days_apart_are_set_by_collectives(uneven: tuple[Store, TimelineResult]) -> None:
    found = uneven[1]
    assert found.wall_ms is not None and found.wall_ms < STEPS
    assert any("2 clocks (hosts) were aligned by 12 collectives" in note for note in found.notes)


def test_the_rank_that_the_others_wait_for_is_named(uneven: tuple[Store, TimelineResult]) -> None:
    found = uneven[1]
    assert found.ranks.columns[:2] == ["rank", "host"] and found.ranks.rows[0][:2] == [2, "node1"]
    waited = {row[0]: row[found.ranks.columns.index("waited_ms")] for row in found.ranks.rows}
    assert waited[2] == 0 and all(waited[rank] == pytest.approx(STEPS * 0.1, rel=1e-3) for rank in (0, 1, 3))
    said = " ".join(text for f in found.findings for text in (f.claim, *f.evidence))
    assert "rank 2 on node1 waits least: the others wait for it" in said or found.findings[0].height != "communication"
    assert any(f.height == "communication" for f in found.findings)


def test_equal_process_ids_link_no_launch_of_another_rank(uneven: tuple[Store, TimelineResult]) -> None:
    """All traces have process 40 and the same correlation ids."""
    assert figure(uneven[1], "launch_call_us") == pytest.approx(2.0)
    assert 0.5 < (figure(uneven[1], "queue_depth") or 0) < 1.5


def test_without_collectives_times_are_compared_within_a_rank_only(tmp_path: Path) -> None:
    _, found = told(tmp_path, {0: 0.0, 1: 0.0, 2: 100.0, 3: 0.0}, collectives=False)
    assert any("not synchronised" in note for note in found.notes)
    assert found.wall_ms is not None and found.wall_ms < STEPS
    assert figure(found, "collective_wait_pct") is None
    assert any("Rank 2 on node1 takes 100 % longer" in f.claim for f in found.findings)


def test_a_host_that_lacks_a_collective_sets_no_clock(tmp_path: Path) -> None:
    """Its n-th all-reduce is another one than that of the others, a whole step later."""
    _, found = told(tmp_path, dict.fromkeys(HOSTS, 0.0), lacking="node1")
    assert any("not synchronised" in note for note in found.notes)
    assert not any("were aligned by" in note for note in found.notes)


def counted(folder: Path, own: dict[int, dict[str, Any]]) -> Workload:
    """Ranks of rocprof-compute with three launches each of 10 us; ``own`` changes columns of single ranks."""
    bench = Bench(folder)
    for rank in range(4):
        bench.sysinfo(f"app/{rank}", hostname=f"node{rank}")
        start = [10**15 + 100_000 * i for i in range(3)]
        columns = {
            "SQ_WAVES": [16.0] * 3, "SQ_INSTS_VALU": [1000.0] * 3, "GRBM_GUI_ACTIVE": [17_000.0] * 3,
            "Start_Timestamp": start, "End_Timestamp": [s + 10_000 for s in start],
        }  # fmt: skip
        bench.workload(f"app/{rank}", **(columns | own.get(rank, {})))
    return Workload.open(bench.store, bench.load(folder / "app").workload)


LONGER = [10**15 + 100_000 * i + 14_000 for i in range(3)]
"""Ends of launches that take 14 us."""


def test_the_same_work_at_a_lower_clock_is_a_slow_device(tmp_path: Path) -> None:
    with counted(tmp_path, {1: {"End_Timestamp": LONGER}}) as opened:
        found = slow_rank(opened)
        told = diagnose_bottleneck(opened.store, opened.id)
    assert found is not None and (found.rank, found.host, found.why) == (1, "node1", "slow_device")
    assert found.time == 42_000 and found.others == 30_000 and found.slower == pytest.approx(12_000)
    assert any("GRBM_GUI_ACTIVE per launch: 100 % of the others'" in text for text in found.evidence)
    assert [(one.rank, one.kernel is None) for one in told.ranks] == [(1, True), (1, False)]
    assert any("all 4 ranks" in note for note in told.notes)


def test_more_instructions_in_the_same_launches_are_uneven_work(tmp_path: Path) -> None:
    own = {"End_Timestamp": LONGER, "SQ_INSTS_VALU": [1400.0] * 3, "GRBM_GUI_ACTIVE": [23_800.0] * 3}
    with counted(tmp_path, {3: own}) as opened:
        found = slow_rank(opened)
    assert found is not None and (found.rank, found.why) == (3, "uneven_work")
    assert any("SQ_INSTS_VALU per launch: 140 %" in text for text in found.evidence)


def test_longer_launches_without_counters_are_left_open(tmp_path: Path) -> None:
    own = {rank: {c: [None] * 3 for c in ("SQ_INSTS_VALU", "SQ_WAVES")} for rank in range(4)}
    own[1]["End_Timestamp"] = LONGER
    with counted(tmp_path, own) as opened:
        found = slow_rank(opened)
    assert found is not None and found.why == "slower_launches"


def test_equal_ranks_are_none_that_is_slow(tmp_path: Path) -> None:
    with counted(tmp_path, {}) as opened:
        assert diagnose_bottleneck(opened.store, opened.id).ranks == []


def test_processes_without_rank_and_host_share_a_clock(tmp_path: Path) -> None:
    """As a program that starts another one: nothing tells their clocks apart, and nothing is moved."""
    for number in range(2):
        events = [complete("kernel", "k", 1000.0 + 100 * number + 10 * n, 5.0, pid=0) for n in range(4)]
        events.append(complete("cuda_runtime", "cudaLaunchKernel", 900.0 + 100 * number, 2.0, pid=40 + number))
        write(tmp_path / "run" / f"part_{'ab'[number]}.json", trace(events, baseTimeNanoseconds=0))
    store = Store(tmp_path / "store")
    done = import_profile(store, str(tmp_path / "run"))
    found = compute_timeline(store, done.workload, steady=False)
    assert not any("clocks" in note for note in found.notes) and found.ranks.rows == []
    assert found.wall_ms == pytest.approx(0.235)


def test_a_pattern_names_the_ranks_to_read_and_nothing_beside_them(store: Store, tmp_path: Path) -> None:
    hosts = dict.fromkeys(range(3), "node")
    folder = training(tmp_path / "job", dict.fromkeys(hosts, 0.0), hosts)
    (folder / "notes.json").write_text("{}")
    (folder / "node_9_link.pt.trace.json").symlink_to("/etc/hostname")
    before = {file.name: file.read_bytes() for file in folder.glob("node_40*")}
    done = import_profile(store, f"{folder}/node_*.pt.trace.json")
    assert any("3 ranks" in note for note in done.notes) and done.name == folder.name
    assert store.resolve(done.workload).ranks == 3
    one = import_profile(store, f"{folder}/*6701.pt.trace.json")
    assert store.resolve(one.workload).ranks == 0, "one match is that file"
    assert before == {file.name: file.read_bytes() for file in folder.glob("node_40*")}
    assert not [place for place in private_folder().iterdir() if (place / folder.name).exists()]
    with pytest.raises(NotFound, match="does not exist"):
        import_profile(store, f"{folder}/nothing_*")


def test_what_cannot_be_linked_is_copied_and_pipes_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        (tmp_path / f"rank_{number}").mkdir()
        (tmp_path / f"rank_{number}" / "a.csv").write_text("1")
    os.mkfifo(tmp_path / "rank_0" / "pipe")

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", refused)
    with as_one_folder(matches(tmp_path / "rank_*")) as folder:
        found = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
        assert found == ["rank_0", "rank_0/a.csv", "rank_1", "rank_1/a.csv"]
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))  # type: ignore[attr-defined]
        with pytest.raises(LimitExceeded, match="no room"), as_one_folder(matches(tmp_path / "rank_*")):
            pass
    assert not folder.exists()


def test_a_pattern_around_the_temporary_folder_ends_and_too_many_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    with as_one_folder(matches(tmp_path / "*")) as folder:
        assert sorted(p.name for p in folder.iterdir()) == ["a", "b"]
    monkeypatch.setattr(import_to_store, "_MOST", 2)
    (tmp_path / "tmp" / "c").write_text("c")
    names = [tmp_path / name for name in ("a", "b", "tmp")]
    with pytest.raises(LimitExceeded, match="more than 2 files"), as_one_folder(names):
        pass
