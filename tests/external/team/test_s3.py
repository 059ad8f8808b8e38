"""A store in a bucket: the same answers as from a folder, nothing half visible, errors that say what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import NotAllowed, Problem, StoreProblem
from rooflens.analysis.store.manifest import PREFIX
from rooflens.analysis.store.remote import s3 as s3_module
from rooflens.analysis.store.remote.address import bucket
from rooflens.analysis.store.store import Store
from rooflens.tests.external.team.conftest import SAMPLES
from rooflens.tests.external.team.crowd import files
from rooflens.tools.compute_metrics import compute_metrics
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads
from rooflens.tools.query_counters import query_counters
from rooflens.tools.team.workload_choice import change_tags, transfer


def client(address: str) -> tuple[object, str, str]:
    import boto3

    place = bucket(address)
    return boto3.client("s3", region_name="us-east-1"), place.name, place.prefix


def keys(address: str) -> list[str]:
    s3, name, prefix = client(address)
    return sorted(o["Key"].removeprefix(prefix) for o in s3.list_objects_v2(Bucket=name).get("Contents", []))


def put(address: str, key: str, content: bytes) -> None:
    s3, name, prefix = client(address)
    s3.put_object(Bucket=name, Key=prefix + key, Body=content)


def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From here on as on another machine: without the copies of this one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))


def test_what_one_machine_imports_another_reads_with_every_figure_the_same(
    s3: str, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = import_profile(Store.locate(s3), str(SAMPLES / "yax_before"), name="yax_before")
    elsewhere(monkeypatch, tmp_path)
    there = Store.locate(s3)
    assert [row[0] for row in list_workloads(there).table.rows] == [done.workload]
    for reference in (done.workload, done.workload[:14], "yax_before", "latest"):
        assert there.resolve(reference).id == done.workload
    far, near = (compute_metrics(s, "yax_before", ["*"]).table.rows for s in (there, four))
    assert far == near
    sql = "SELECT kernel, TCC_HIT_sum, duration_ns FROM counters WHERE SQ_WAVES > 0"
    assert query_counters(there, sql).table.rows == query_counters(four, sql, "yax_before").table.rows


def test_push_can_be_repeated_and_pull_brings_the_same_bytes(s3: str, four: Store, tmp_path: Path) -> None:
    there, back = Store.locate(s3), Store(tmp_path / "back")
    every = four.scan()[0]
    assert [one.new for one in transfer(four, there, every)] == [True] * 4
    before = keys(s3)
    assert [one.new for one in transfer(four, there, every)] == [False] * 4
    assert keys(s3) == before
    assert [one.new for one in transfer(there, back, there.scan()[0])] == [True] * 4
    assert [one.new for one in transfer(there, back, there.scan()[0])] == [False] * 4
    for one in every:
        ours, theirs = (files(store.folder(one)) for store in (four, back))
        assert {n: c for n, c in ours.items() if n != "manifest.json"} == {
            n: c for n, c in theirs.items() if n != "manifest.json"
        }


def test_a_push_that_was_cut_off_is_invisible_and_goes_on_where_it_stopped(
    s3: str, four: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, one = Store.locate(s3), four.resolve("yax_before")
    sent: list[str] = []
    plain = s3_module.S3Objects.upload

    def cut_off(self: s3_module.S3Objects, source: Path, key: str, sha256: str) -> None:
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(key)
        plain(self, source, key, sha256)

    with monkeypatch.context() as patched:
        patched.setattr(s3_module.S3Objects, "upload", cut_off)
        with pytest.raises(KeyboardInterrupt):
            transfer(four, there, [one])
    assert len(keys(s3)) == 2 and there.scan() == ([], [])
    s3_client = there.objects._client  # type: ignore[attr-defined]
    again: list[str] = []

    def noted(path: str, name: str, key: str, **more: object) -> None:
        again.append(key)
        upload(path, name, key, **more)

    upload = s3_client.upload_file
    monkeypatch.setattr(s3_client, "upload_file", noted)
    transfer(four, there, [one])
    assert not [key for key in again if key.removeprefix("team/") in sent]
    assert there.scan()[0][0].id == one.id


def test_another_workload_under_the_same_id_is_refused(s3: str, four: Store, tmp_path: Path) -> None:
    there, one = Store.locate(s3), four.resolve("yax_before")
    transfer(four, there, [one])
    changed = Store(tmp_path / "changed")
    transfer(four, changed, [one])
    file = changed.folder(one) / "passes.parquet"
    file.write_bytes(bytes(reversed(file.read_bytes())))
    with pytest.raises(StoreProblem, match="another workload"):
        transfer(changed, there, [changed.resolve(one.id)])


def test_a_changed_object_is_not_taken_for_the_workload(s3: str, four: Store) -> None:
    there, one = Store.locate(s3), four.resolve("yax_before")
    transfer(four, there, [one])
    key = f"{PREFIX}{one.id}/dispatches.parquet"
    size = one.files["dispatches.parquet"]
    for content, why in ((b"x" * size, "SHA-256"), (b"x" * 7, "bytes instead of"), (b"x" * 10 * size, "bytes instead")):
        put(s3, key, content)
        with pytest.raises(StoreProblem, match=why):
            there.folder(there.resolve(one.id))
        assert not (there.root / f"{PREFIX}{one.id}").exists() and not list(there.root.glob("tmp/*"))


_KNOWN = '"id": "ID", "name": "x", "format": "f"'
HOSTILE = {
    "no JSON": b"\xff\xfe{",
    "nested": b"[" * 100_000,
    "a huge number": f'{{{_KNOWN}, "dispatches": 1e400}}'.encode(),
    "a foreign id": b'{"id": "0other0other0000", "name": "x", "format": "f"}',
    "a way out": f'{{{_KNOWN}, "files": {{"../../evil.parquet": 1}}, "sha256": {{"../../evil.parquet": ""}}}}'.encode(),
    "an absolute path": f'{{{_KNOWN}, "files": {{"/etc/passwd": 1}}, "sha256": {{"/etc/passwd": ""}}}}'.encode(),
    "no checksums": f'{{{_KNOWN}, "files": {{"dispatches.parquet": 1}}}}'.encode(),
    "a later layout": f'{{{_KNOWN}, "layout": 99}}'.encode(),
    "negative sizes": f'{{{_KNOWN}, "files": {{"dispatches.parquet": -1}}}}'.encode(),
}


def test_hostile_manifests_are_named_and_harm_no_other(s3: str, four: Store, tmp_path: Path) -> None:
    there = Store.locate(s3)
    transfer(four, there, [four.resolve("clover")])
    for n, content in enumerate(HOSTILE.values()):
        put(s3, f"manifests/000000000000000{n}.json", content.replace(b"ID", b"000000000000000%d" % n))
    put(s3, "manifests/../../way.json", b"{}")
    found, broken = there.scan()
    assert [m.name for m in found] == ["clover"] and len(broken) == len(HOSTILE)
    assert not [path for path in tmp_path.rglob("*") if "evil" in path.name or "way" in path.name]
    assert query_counters(there, "SELECT count(*) FROM dispatches").table.rows == [[1]]


def test_a_manifest_whose_files_are_missing_says_so(s3: str, four: Store) -> None:
    there, one = Store.locate(s3), four.resolve("clover")
    transfer(four, there, [one])
    s3_client, name, prefix = client(s3)
    s3_client.delete_object(Bucket=name, Key=f"{prefix}{PREFIX}{one.id}/dispatches.parquet")
    with pytest.raises(StoreProblem, match="missing"):
        list_workloads(there, "clover")
    transfer(four, there, [four.resolve("yax_before")])
    answer = query_counters(there, "SELECT count(*) FROM dispatches")
    assert answer.table.rows == [[1]] and any(one.id in note for note in answer.notes), "it harms no other"


def test_tags_given_on_one_machine_are_seen_on_another(
    s3: str, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.locate(s3)
    transfer(four, store, [four.resolve("clover")])
    store.resolve("clover")
    change_tags(store, store.resolve("clover"), ["release"], ["clo"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    for seen in (store, Store.locate(s3)):
        assert seen.resolve("clover").tags == ["release"] and seen.scan()[1] == []
        assert (seen.folder(seen.resolve("clover")) / "dispatches.parquet").exists()
    with pytest.raises(NotAllowed):
        change_tags(Store.locate(s3, read_only=True), store.resolve("clover"), ["x"], [])


def test_a_deleted_workload_is_gone_for_everyone_and_its_copy_with_it(
    s3: str, four: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Store.locate(s3)
    transfer(four, there, four.scan()[0])
    gone = there.resolve("clover")
    there.folder(gone)
    there.remove([gone])
    assert not [key for key in keys(s3) if gone.id in key] and not (there.root / f"{PREFIX}{gone.id}").exists()
    assert {m.name for m in there.scan()[0]} == {"yax_before", "yax_after", "matmul_fp64"}


def test_a_read_only_store_reads_and_neither_adds_nor_removes(s3: str, four: Store) -> None:
    transfer(four, Store.locate(s3), [four.resolve("clover")])
    there = Store.locate(s3, read_only=True)
    assert len(list_workloads(there, "clover").table.rows) == 1
    for forbidden in (
        lambda: transfer(four, there, four.scan()[0]),
        lambda: there.remove(there.scan()[0]),
        lambda: import_profile(there, str(SAMPLES / "clover")),
    ):
        with pytest.raises(NotAllowed):
            forbidden()


def test_copies_are_given_up_when_they_grow_beyond_the_limit(
    s3: str, four: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Store.locate(s3)
    transfer(four, there, four.scan()[0])
    monkeypatch.setenv("ROOFLENS_CACHE_BYTES", "1")
    for one in there.scan()[0]:
        os.utime(there.folder(one), (0, 0))
    there.folder(there.resolve("clover"))
    there._fetch(there.resolve("clover"))  # type: ignore[attr-defined]
    left = [path.name for path in there.root.glob(f"{PREFIX}*")]
    assert left == [f"{PREFIX}{there.resolve('clover').id}"], "what was used last stays"


def test_errors_say_what_is_wrong_and_what_to_do(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = bucket(s3).name
    with pytest.raises(StoreProblem, match="The bucket does not exist"):
        Store.locate("s3://nobody-made-this").scan()
    with monkeypatch.context() as patched:
        patched.setattr(s3_module, "_ATTEMPTS", 1)
        patched.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(StoreProblem, match="does not answer"):
            Store.locate(s3).scan()
        patched.setenv("AWS_ENDPOINT_URL", "what?")
        with pytest.raises(StoreProblem, match=name):
            Store.locate(s3).scan()
    for code, words in (
        ("AccessDenied", "do not permit"), ("403", "do not permit"), ("RequestTimeTooSkewed", "clock"),
        ("AuthorizationHeaderMalformed", "region"), ("PermanentRedirect", "region"), ("ExpiredToken", "expired"),
        ("SignatureDoesNotMatch", "secret key"), ("SomethingNew", "SomethingNew"),
    ):  # fmt: skip
        problem = s3_module.S3Objects(bucket(s3))._refusal(code)
        assert words in problem.text and name in problem.text
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreProblem, match="No credentials"):
        Store.locate(s3).scan()


def test_sql_of_a_client_reaches_neither_the_bucket_nor_the_credentials(s3: str, four: Store) -> None:
    transfer(four, Store.locate(s3), four.scan()[0])
    command = [sys.executable, "-m", "rooflens", "call", "--store", s3, "list_workloads"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["table"]["total_rows"] == 4
    assert "the-secret-of-the-tests" not in done.stdout + done.stderr
    there = Store.locate(s3)
    assert query_counters(there, "SELECT count(*) FROM dispatches").table.rows == [[9]]
    for attack in (
        f"SELECT * FROM read_parquet('{s3}/*/dispatches.parquet')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT getenv('AWS_SECRET_ACCESS_KEY')",
        "SELECT * FROM read_text('/proc/self/environ')",
    ):
        with pytest.raises(Problem) as refused:
            query_counters(there, attack)
        assert "the-secret-of-the-tests" not in refused.value.text
    # What the child of a query is given holds neither.
    from rooflens.tools.sql import sandbox

    with sandbox.sandbox("SELECT 1", 5) as box:
        environ = Path(f"/proc/{box.child.pid}/environ").read_bytes()
        assert b"the-secret-of-the-tests" not in environ
