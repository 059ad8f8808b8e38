"""doctor --bundle: what a maintainer needs is in it, what is nobody's business is not."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server import cli
from rooflens.server.doctor import bundle as module
from rooflens.server.doctor import examination
from rooflens.server.doctor.scrubber import Scrubber
from rooflens.tools.device.machine.model import Check, Device, InstalledProfiler
from rooflens.tools.device.machine.permissions import CounterPermission
from rooflens.tools.device.machine.survey import Machine
from rooflens.tools.running import run_state as runs
from rooflens.tools.running import start as launch

PLANTED = ("planted-token-1", "hunter2", "alice", "node17", "GPU-11111111", "0000:c1:00.0", "VALUE-OF-A-VARIABLE")
"""Must not be found in a bundle."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a run that failed, and a newer one that did not."""
    store = Store(tmp_path / "store")
    for state in ("failed", "done"):
        run_id, folder = launch.new_run(store)
        runs.write(
            folder,
            runs.ProfileRun(
                run_id=run_id, name="planted-token-1", timeout_s=60, steps=["timing"], profiler="rocprofv3",
                command="python train.py --api-key hunter2 --data /home/alice/data", cwd="/home/alice", host="node17",
                variables=["SECRET_OF_ALICE"], profiler_version="1.0.0", hypothesis="hunter2",
            ),
        )  # fmt: skip
        problem = runs.ProblemText(what="rocprofv3 ended with status 1", why="HIP out of memory on\nnode17\tof\talice")
        runs.write(folder, runs.RunState(state=state, fault="timing", status=1, problem=problem))
        (folder / runs.SUPERVISOR_LOG).write_text("Traceback: a bug of ours on node17\n")
        logs = folder / runs.LOGS
        logs.mkdir(exist_ok=True)
        (logs / "timing.err").write_text(
            "\x1b[31mHIP out of memory\nHF_TOKEN=planted-token-1\nMINE=VALUE-OF-A-VARIABLE\n/home/alice/a.py: error 2\n"
        )
    return store


@pytest.fixture
def found() -> tuple[Machine, list[Check]]:
    """A machine with a GPU and a profiler."""
    gpu = Device(
        vendor="amd", index=0, name="AMD Instinct MI300X", arch="gfx942", uuid="GPU-11111111", pci="0000:c1:00.0"
    )
    profiler = InstalledProfiler(name="rocprofv3", vendor="amd", path="/opt/rocm/bin/rocprofv3", version="1.0.0")
    machine = Machine([gpu], [profiler], {"amd": CounterPermission(False, "no /dev/kfd", "--device")}, [])
    return machine, [Check(name="store", state="ok", found="/home/alice/.local/share/rooflens, writable")]


@pytest.fixture(autouse=True)
def _alice(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"HF_TOKEN": "planted-token-1", "MINE": "VALUE-OF-A-VARIABLE"}
    alice = Scrubber(environment, Path("/home/alice"), "alice", "node17.cluster.example")
    monkeypatch.setattr(module, "here", lambda: alice)


def test_a_bundle_holds_what_helps_and_nothing_that_was_planted(
    tmp_path: Path, store: Store, found: tuple[Machine, list[Check]]
) -> None:
    path = tmp_path / "bundle.zip"
    told = module.bundle(store, path, found[1])
    with zipfile.ZipFile(path) as packed:
        texts = {name: packed.read(name).decode() for name in packed.namelist()}
    text = "\n".join(texts.values())
    assert [word for word in PLANTED if word in text] == []
    for wanted in (
        '"rooflens": "0.', "profiler_version", "1.0.0",
        "python train.py --api-key [withheld] --data ~/data", "rocprofv3 ended with status 1",
        "HIP out of memory", "a bug of ours", "~/a.py: error 2", "~/.local/share/rooflens",
    ):  # fmt: skip
        assert wanted in text
    assert "\x1b" not in text
    assert {"doctor.txt", "workloads.txt", "failed_run.txt", "failed_run/timing.err"} <= texts.keys()
    assert len(texts) == len(told) - 2 and all(name in line for name, line in zip(texts, told[1:], strict=False))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_or_link_of_that_name_is_never_overwritten(
    tmp_path: Path, store: Store, found: tuple[Machine, list[Check]], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(examination, "examine", lambda store, roots: found)
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link"):
        assert cli.main(["--store", str(store.root), "doctor", "--bundle", str(tmp_path / name)]) == 1
        said = capsys.readouterr()
        assert "exists already" in said.err and said.out == ""
    assert (tmp_path / "there").read_text() == "mine" and not (tmp_path / "nowhere").exists()
    assert cli.main(["--store", str(store.root), "doctor", "--bundle", str(tmp_path / "absent" / "b")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert cli.main(["--store", str(store.root), "doctor", "--bundle", str(tmp_path / "new")]) == 0
    assert "Read it before you send it" in capsys.readouterr().out and (tmp_path / "new").exists()


def test_a_store_without_a_failed_run_has_no_texts_of_one(tmp_path: Path, found: tuple[Machine, list[Check]]) -> None:
    texts = module.texts(Store(tmp_path / "none"), found[1], module.here())
    assert list(texts) == ["doctor.txt", "workloads.txt"]


def test_endless_logs_are_cut_to_their_ends(tmp_path: Path, store: Store, found: tuple[Machine, list[Check]]) -> None:
    failed = next(f for f in runs.folders(store) if runs.read_state(f).state == "failed")
    (failed / runs.LOGS / "timing.out").write_text("first line\n" + "x y z\n" * 400_000 + "last line")
    log = module.texts(store, found[1], module.here())["failed_run/timing.out"]
    assert len(log) < 100_000 and log.startswith("x y z\n") and log.endswith("last line")
