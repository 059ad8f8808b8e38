"""Which workloads are chosen, kept and moved, in folders of one user."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.database import connect
from rooflens.analysis.base.problems import BadArgument, LimitExceeded, NotFound, StoreProblem
from rooflens.analysis.store.manifest import MANIFEST
from rooflens.analysis.store.store import Manifest, Store, new_id, write_table
from rooflens.server import cli
from rooflens.server.terminal import outcome
from rooflens.tests.support.waiting import END_S, at_most
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters
from rooflens.tools.team.workload_choice import RetentionRules, choose_workloads, expired_workloads, transfer

DAY_NS = 86_400_000_000_000


def profile(
    store: Store, times: Sequence[float], name: str = "bench", age_days: float = 0, **known: object
) -> Manifest:
    """A workload with one kernel of these run times in ns."""
    listed = ", ".join(f"({n}, {time}::DOUBLE)" for n, time in enumerate(times))
    with store.draft() as folder, connect() as con:
        write_table(
            con,
            "SELECT n::BIGINT AS dispatch_id, 'saxpy(float*)' AS kernel, duration_ns, 1::INTEGER AS launch, "
            f"'64 x 256' AS configuration, 16384::BIGINT AS grid, 256::INTEGER AS workgroup_size "
            f"FROM (VALUES {listed}) t(n, duration_ns)",
            folder / "dispatches.parquet",
        )
        facts = {"arch": "gfx90a", "device": "MI250X", "dispatches": len(times), "kernels": 1, **known}
        done = store.publish(folder, Manifest(name=name, format="made", **facts))
    older = done.model_copy(update={"created_ns": int(done.created_ns - age_days * DAY_NS)})
    (store.folder(done) / MANIFEST).write_text(older.model_dump_json())
    return older


def spread(middle: float, n: int = 40) -> list[float]:
    return [middle * (1 + 0.004 * ((i * 7) % 11 - 5) / 5) for i in range(n)]


def test_rules_keep_by_age_number_of_a_name_and_label(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = [profile(store, [1.0], name="ab"[n % 2], age_days=n * 10, tags=["release"] * (n == 5)) for n in range(6)]
    future = profile(store, [1.0], name="c", age_days=-400)

    def going(keep: str | None = None, last: int | None = None, tags: Sequence[str] = ()) -> list[Manifest]:
        return expired_workloads(store.scan()[0], RetentionRules.parse(keep, last, tags))

    assert [m.id for m in going("25d")] == [made[n].id for n in (5, 4, 3)]
    assert [m.id for m in going("25d", tags=["release"])] == [made[n].id for n in (4, 3)]
    assert [m.id for m in going(last=1)] == [made[n].id for n in (5, 4, 3, 2)]
    assert [m.id for m in going("4w", 2, ["name=a"])] == [made[n].id for n in (5,)]
    assert future.id not in {m.id for m in going("1h")}
    for rule in ({}, {"keep": "x"}, {"keep": "-3d"}, {"keep": "99999999d"}, {"keep": "0d"}, {"last": 0}, {"last": -1}):
        with pytest.raises(BadArgument):
            going(**rule)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="release"):
        going(tags=["relaese"])


def test_prune_names_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = profile(Store(tmp_path), [1.0])
    (tmp_path / f"workload={damaged.id}" / MANIFEST).write_text("{")
    command = ["prune", "--store", str(tmp_path), "--keep", "90d"]
    assert cli.main(command) == 0 and f"Skipped: workload={damaged.id}" in capsys.readouterr().out
    assert cli.main([*command, "--json"]) == 0
    assert damaged.id in json.loads(capsys.readouterr().out)["unreadable"][0]


def test_prune_only_lists_until_told_to_delete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    old, new = profile(store, [1.0], age_days=100), profile(store, [1.0])
    command = ["prune", "--store", str(tmp_path), "--keep", "90d"]
    assert cli.main(command) == 0 and old.id in capsys.readouterr().out and len(store.scan()[0]) == 2
    assert cli.main([*command, "--yes"]) == 0
    assert [m.id for m in store.scan()[0]] == [new.id] and not list(tmp_path.glob("tmp/*"))
    assert cli.main(["prune", "--store", str(tmp_path)]) == 1, "without a rule everything would go"
    assert "No rule" in capsys.readouterr().err


def test_workloads_are_chosen_by_reference_or_label_or_all(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = profile(store, [1.0], name="one", tags=["x", "y"], branch="main", host="n1")
    two = profile(store, [1.0], name="two", tags=["x"])
    assert choose_workloads(store, ["one", one.id, "two"]) == [one, two]
    assert choose_workloads(store, [], ["x"]) == [one, two] and choose_workloads(store, [], ["x", "y"]) == [one]
    assert choose_workloads(store, [], ["branch=main", "host=n1", "name=one"]) == [one]
    assert choose_workloads(store, [], every=True) == [one, two]
    for wrong in ((["one"], ["x"]), ([], [])):
        with pytest.raises(BadArgument):
            choose_workloads(store, *wrong)
    with pytest.raises(NotFound, match="branch=main"):
        choose_workloads(store, [], ["branch=maim"])


def test_folders_copy_to_each_other_and_refuse_what_is_damaged_or_another(tmp_path: Path) -> None:
    source, target = Store(tmp_path / "source"), Store(tmp_path / "target")
    one = profile(source, [1.0, 2.0])
    assert [m.new for m in transfer(source, target, [one])] == [True]
    assert [m.new for m in transfer(source, target, [one])] == [False]
    assert target.resolve(one.id) == one
    with pytest.raises(BadArgument, match="same"):
        transfer(source, source, [one])
    file = source.folder(one) / "dispatches.parquet"
    content = file.read_bytes()
    file.write_bytes(content + b"PAR1")
    with pytest.raises(StoreProblem, match="does not match its manifest"):
        transfer(source, Store(tmp_path / "third"), [one])
    assert not Store(tmp_path / "third").scan()[0] and not list((tmp_path / "third").glob("tmp/*"))
    grown = one.model_copy(update={"files": {"dispatches.parquet": len(content) + 1}})
    with pytest.raises(StoreProblem, match="another workload"):
        transfer(source, target, [grown])


def test_tags_are_given_and_taken_and_the_figures_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    one = profile(store, [1e6], name="one", tags=["old", "kept"])
    files = {f.name: f.read_bytes() for f in store.folder(one).glob("*.parquet")}
    command = ["tag", "--store", str(tmp_path), "one"]
    assert cli.main([*command, "--add", "release", "--remove", "old", "--add", "kept", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workloads"][0]["tags"] == ["kept", "release"]
    assert [m.tags for m in store.scan()[0]] == [["kept", "release"]] and store.resolve(one.id).id == one.id
    assert files == {f.name: f.read_bytes() for f in store.folder(one).glob("*.parquet")}
    assert choose_workloads(store, [], ["release"])[0].id == one.id
    many = [word for n in range(31) for word in ("--add", f"t{n}")]
    for wrong, status in (
        ([], outcome.USAGE),
        (["--remove", "old"], outcome.REFUSED),
        (["--add", "latest"], outcome.REFUSED),
        (["--add", "\x1b[31m"], outcome.REFUSED),
        (many, outcome.REFUSED),
    ):
        assert cli.main([*command, *wrong]) == status
    assert store.resolve("one").tags == ["kept", "release"]


def test_a_push_goes_to_a_store_and_not_into_whatever_has_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "here")
    for name in ("a", "b"):
        profile(store, [1e6], name=name)
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "main.c").write_text("")
    (tmp_path / "sources" / "runs").mkdir()  # a store has such a folder, but so have projects
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    push = ["push", "--store", str(store.root)]
    for target, told in (("b", "name of a workload here"), ("sources", "It contains other files (main.c, runs)")):
        assert cli.main([*push, "a", target]) == outcome.REFUSED and told in capsys.readouterr().err
    assert not (tmp_path / "b").exists() and sorted(p.name for p in (tmp_path / "sources").iterdir()) == [
        "main.c",
        "runs",
    ]
    for target in ("./b", "empty", "empty"):
        assert cli.main([*push, "a", target]) == outcome.OK
    assert capsys.readouterr().out.splitlines()[-1] == f"0 of 1 copied to {tmp_path / 'empty'}"
    assert cli.main(["pull", "--store", str(store.root), "--all", "nowhere"]) == outcome.REFUSED
    assert f"There is no store at {tmp_path / 'nowhere'}" in capsys.readouterr().err


def _foreign(tmp_path: Path) -> tuple[Store, Manifest, Path]:
    """A store of somebody else with one workload, and the workload's folder."""
    store = Store(tmp_path / "foreign")
    made = profile(store, [1.0, 2.0])
    return store, made, store.folder(made)


def _state_file(folder: Path, manifest: Manifest, name: str, size: int) -> Manifest:
    """Let the manifest of a workload state that it has this file."""
    stated = manifest.model_copy(update={"files": {**manifest.files, name: size}})
    (folder / MANIFEST).write_text(stated.model_dump_json())
    return stated


@pytest.mark.parametrize("size", [10**12, 1 << 20])
@pytest.mark.parametrize("marks", [False, True])
def test_a_sparse_file_is_refused_before_it_is_copied(tmp_path: Path, size: int, marks: bool) -> None:
    store, made, folder = _foreign(tmp_path)
    file = folder / "dispatches.parquet"
    with file.open("r+b") as whole:
        whole.truncate(size)
        if marks:
            whole.seek(size - 4)
            whole.write(b"PAR1")
    stated = _state_file(folder, made, file.name, size)
    mine = Store(tmp_path / "mine")
    with pytest.raises(StoreProblem, match="not a complete Parquet file"):
        transfer(store, mine, [stated])
    assert not list(mine.root.glob("workload=*")) and not list(mine.root.glob("tmp/*"))


def test_a_workload_that_does_not_fit_is_refused_before_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, made, _ = _foreign(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
    monkeypatch.setattr(shutil, "copyfile", lambda *_, **__: pytest.fail("nothing may be copied"))
    with pytest.raises(LimitExceeded, match="has room for"):
        transfer(store, Store(tmp_path / "mine"), [made])


@pytest.mark.parametrize(
    "name", [".bashrc", "x.so", "__init__.py", "notes", "a\nb", "evil.parquet", "DISPATCHES.parquet", "../x.parquet"]
)
def test_a_workload_may_bring_tables_only(tmp_path: Path, name: str) -> None:
    store, made, folder = _foreign(tmp_path)
    (folder / name).write_bytes(b"PAR1PAR1")
    stated = _state_file(folder, made, name, 8)
    manifests, broken = store.scan()
    assert not manifests and "not tables" in broken[0]
    mine = Store(tmp_path / "mine")
    with pytest.raises(StoreProblem, match="not tables"):
        transfer(store, mine, [stated])
    assert not list(mine.root.glob("workload=*"))


def test_a_pull_that_is_told_to_end_leaves_no_draft(tmp_path: Path) -> None:
    store, _, _ = _foreign(tmp_path)
    slow = (
        "import shutil, sys, time\nfrom rooflens.server import cli\n"
        "def copy(*_, **__):\n    print('copies', flush=True)\n    time.sleep(60)\n"
        "shutil.copyfile = copy\nsys.exit(cli.main(sys.argv[1:]))"
    )
    words = ["--store", str(tmp_path / "mine"), "pull", "--all", str(store.root)]
    process = subprocess.Popen([sys.executable, "-c", slow, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"copies\n"
    assert list((tmp_path / "mine" / "tmp").iterdir())
    process.terminate()
    process.communicate(timeout=END_S)
    assert process.returncode == outcome.INTERRUPTED and not list((tmp_path / "mine" / "tmp").iterdir())


def _publish(store: Store, name: str = "small") -> None:
    with store.draft() as folder, connect() as con:
        write_table(con, "SELECT 1::BIGINT AS dispatch_id", folder / "dispatches.parquet")
        store.publish(folder, Manifest(name=name, format="made"))


@pytest.mark.parametrize("way", ["import", "copy", "retag"])
def test_a_disk_that_is_full_at_any_step_is_a_problem_and_leaves_nothing_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    source, made, _ = _foreign(tmp_path)
    mine = Store(tmp_path / "mine")
    if way == "retag":
        transfer(source, mine, [made])
    steps = {"copy": lambda: transfer(source, mine, [made]), "retag": lambda: mine.retag(made, ["new"]),
             "import": lambda: _publish(mine)}  # fmt: skip

    def failing_at(number: int, kind: int) -> list[str]:
        """Let this call of a function that writes fail; the calls."""
        calls: list[str] = []
        for owner, name in (
            (shutil, "copyfile"), (os, "fsync"), (Path, "write_text"), (Path, "rename"), (Path, "mkdir"),
            (Path, "replace"),
        ):  # fmt: skip
            real = getattr(owner, name)

            def write(*words: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
                calls.append(_name)
                if len(calls) == number:
                    raise OSError(kind, os.strerror(kind))
                return _real(*words, **named)

            patched.setattr(owner, name, write)
        return calls

    for kind in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
        if way == "retag":
            mine.retag(made, [])
        before = mine.scan()
        for number in range(1, 40):
            with monkeypatch.context() as patched:
                calls = failing_at(number, kind)
                try:
                    steps[way]()
                except StoreProblem as problem:
                    full = kind in (errno.ENOSPC, errno.EDQUOT)
                    assert ("is full" in problem.text) == full and problem.fix
                else:
                    break
            after = mine.scan()
            # Only the last step, which makes a visible workload durable, may fail after it is there.
            assert not after[1] and (after == before or calls[-1] == "fsync"), calls
            assert not list(mine.root.glob("tmp/*")) and not list(mine.root.glob(".*")), calls
            mine.remove([m for m in after[0] if m not in before[0]])
        assert number >= 3, "some step failed"
        if way != "retag":
            mine.remove(mine.scan()[0])


def test_the_order_of_workloads_and_their_ids_survive_jumps_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    now = time.time_ns()
    jumps = [now, now, now - 3600 * 10**9, 0, now + 300 * 365 * DAY_NS // 4, now]
    for number, at in enumerate(jumps):
        with monkeypatch.context() as patched:
            patched.setattr(time, "time_ns", lambda at=at: at)
            _publish(store, f"n{number}")
    manifests, broken = store.scan()
    assert not broken and len({m.id for m in manifests}) == len(jumps)
    assert [m.created_ns for m in manifests] == sorted(jumps)
    assert {store.resolve(f"n{number}").created_ns for number in range(len(jumps))} == set(jumps)
    gone = expired_workloads(manifests, RetentionRules(younger_s=86_400), now)
    assert [m.created_ns for m in gone] == [0], "what is dated in the future is young"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_store_of_another_user_is_read_and_neither_written_nor_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # the folders of tests are root's alone
        _use_as_another_user(monkeypatch, Path(place))


def _use_as_another_user(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    theirs, mine = Store(place / "theirs"), Store(place / "mine")
    one = profile(theirs, spread(1e5))
    mine.root.mkdir()
    for folder in (place, *place.rglob("*")):
        folder.chmod(0o755 if folder.is_dir() else 0o644)
    os.chown(mine.root, _NOBODY, _NOBODY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(mine.root))
    _read_everything(theirs)  # what is imported later might be out of reach of the other user
    before = {path: path.lstat().st_mtime_ns for path in theirs.root.rglob("*")}
    os.seteuid(_NOBODY)
    try:
        _read_everything(theirs)
        assert [m.new for m in transfer(theirs, mine, [one])] == [True]
        for write in (
            lambda: transfer(mine, theirs, [one.model_copy(update={"id": "0" * 16})]),
            lambda: theirs.retag(one, ["x"]),
            lambda: theirs.remove([one]),
            lambda: profile(theirs, [1.0]),
        ):
            with pytest.raises(StoreProblem):
                write()
    finally:
        os.seteuid(0)
    assert before == {path: path.lstat().st_mtime_ns for path in theirs.root.rglob("*")}


_NOBODY = 65_534


def _read_everything(store: Store) -> None:
    """Use tools that read, and one that keeps what it computes where it may."""
    assert list_workloads(store).table.total_rows == 1
    assert query_counters(store, "SELECT count(*) FROM dispatches").table.rows == [[40]]
    assert query_counters(store, "SELECT count(*) FROM metrics").table.total_rows == 1


def test_a_thousand_workloads_are_listed_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(1_000):
        id = new_id(number * 10**9)
        folder = tmp_path / f"workload={id}"
        folder.mkdir()
        made = Manifest(id=id, name=f"n{number % 50}", format="made", created_ns=number)
        (folder / MANIFEST).write_text(made.model_dump_json())
    with at_most(0.4):
        listed = list_workloads(store)
    assert listed.table.total_rows == 1_000 and len(json.dumps(listed.table.rows)) < 20_000
    with at_most(0.2):
        assert store.resolve("n7").created_ns == 957
