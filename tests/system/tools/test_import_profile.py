"""import_profile: arguments, answers, and what happens when the machine gets in the way."""

from __future__ import annotations

import json

import pytest

from rooflens.analysis.base.notes import Note
from rooflens.analysis.base.problems import BadArgument, BadInput, LimitExceeded, NotFound, StoreProblem
from rooflens.tools.import_profile import import_profile
from rooflens.tools.list_workloads import list_workloads

ROWS = (
    'Dispatch_ID,Kernel_Name,Grid_Size,SQ_WAVES,Start_Timestamp,End_Timestamp\n0,"k(int)",64,1,10,20\n1,j,64,1,30,60\n'
)
SYSINFO = "workload_name,gpu_arch,gpu_model\nmine,gfx90a,MI200\n"


@pytest.fixture
def profile(tmp_path):
    """A minimal workload folder."""
    folder = tmp_path / "runs" / "MI200"
    folder.mkdir(parents=True)
    (folder / "pmc_perf.csv").write_text(ROWS)
    (folder / "sysinfo.csv").write_text(SYSINFO)
    return folder


@pytest.fixture
def unknown(profile):
    """The same without the file that states the device."""
    (profile / "sysinfo.csv").unlink()
    return profile


def test_the_answer_tells_what_came_in_and_what_to_do_next(store, profile):
    done = import_profile(store, str(profile), tags=["baseline"])
    found = list_workloads(store, **done.next[1].arguments).table
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [(r["kernel"], r["calls"], r["total_ns"], r["p95_ns"], r["total_ms"], r["std_ns"]) for r in rows] == [
        ("j", 1, 30, 30, 3e-5, None),
        ("k(int)", 1, 10, 10, 1e-5, None),
    ]
    assert (done.name, done.format, done.arch, done.device) == ("mine", "rocprof-compute", "gfx90a", "MI200")
    assert (done.kernels, done.dispatches, done.counters, done.passes, done.passes_matched) == (2, 2, 1, 1, 1)
    assert store.resolve("latest").id == done.workload and store.resolve("mine").tags == ["baseline"]
    assert [(n.tool, n.arguments["workload"]) for n in done.next] == [
        ("compute_metrics", done.workload),
        ("list_workloads", done.workload),
    ]
    assert done.next[0].arguments["metrics"] == ["overview"]
    assert not list((store.root / "tmp").iterdir())


def test_another_profile_of_the_same_name_is_told_by_its_folder(store, profile, tmp_path):
    import_profile(store, str(profile))
    again = import_profile(store, str(profile))
    assert again.name == "mine" and store.resolve("mine").id == again.workload, "the same profile again"
    other = tmp_path / "tiled" / "MI200"
    other.mkdir(parents=True)
    (other / "sysinfo.csv").write_text(SYSINFO)
    (other / "pmc_perf.csv").write_text(ROWS.replace("1,j,64,1,30,60\n", ""))
    assert import_profile(store, str(other)).name == "mine (tiled/MI200)"


def test_a_folder_that_states_no_name_is_called_by_workload_and_model(store, tmp_path):
    """rocprof-compute writes workloads/NAME/MODEL, and the word "path" where it was told a folder."""
    for of in ("vcopy", "mixbench"):
        folder = tmp_path / of / "MI200"
        folder.mkdir(parents=True)
        (folder / "sysinfo.csv").write_text(SYSINFO.replace("mine", "path"))
        (folder / "pmc_perf.csv").write_text(ROWS)
        assert import_profile(store, str(folder)).name == f"{of}/MI200"
        assert import_profile(store, str(folder)).name == f"{of}/MI200", "the same profile again"
    assert store.resolve("vcopy/MI200").name == "vcopy/MI200"
    assert import_profile(store, str(shorter(tmp_path / "vcopy" / "MI200"))).name == "vcopy/MI200"


def shorter(folder):
    """The folder with a launch less: another profile of its name."""
    (folder / "pmc_perf.csv").write_text(ROWS.replace("1,j,64,1,30,60\n", ""))
    return folder


@pytest.mark.parametrize("name", ["", "  ", "latest", "a\x1b[2Jb", "x" * 121, "a\u202eb", "two\nlines"])
def test_names_that_could_not_be_found_again_are_refused(store, profile, name):
    with pytest.raises(BadArgument, match="cannot be used"):
        import_profile(store, str(profile), name=name)
    with pytest.raises(BadArgument, match="cannot be used"):
        import_profile(store, str(profile), tags=[name])
    assert not store.scan()[0]


def test_a_profile_without_a_device_asks_for_it(store, unknown):
    done = import_profile(store, str(unknown))
    assert done.arch is None and [n.tool for n in done.next] == ["list_workloads"]
    assert any("gpu= one of" in n and "gfx90a" in n and "sm_90" not in n for n in done.notes)


def test_the_caller_may_name_the_device(store, unknown):
    done = import_profile(store, str(unknown), gpu="MI250X")
    assert done.arch == "gfx90a" and done.next[0].tool == "compute_metrics"
    with pytest.raises(BadArgument, match="a GPU of amd"):
        import_profile(store, str(unknown), gpu="sm_90")
    with pytest.raises(NotFound, match="Unknown GPU 'gfx90'.*Near names:.*gfx90a"):
        import_profile(store, str(unknown), gpu="gfx90")


def test_a_device_that_contradicts_the_profile_is_refused(store, profile):
    with pytest.raises(BadArgument, match="contradicts the profile.*gfx90a"):
        import_profile(store, str(profile), gpu="gfx942")


def test_a_path_that_does_not_exist_gets_near_names(store, profile):
    with pytest.raises(NotFound, match="MI2000 does not exist.*Near names: MI200"):
        import_profile(store, str(profile.parent / "MI2000"))
    with pytest.raises(NotFound, match="does not exist"):
        import_profile(store, str(profile.parent / "no" / "such" / "folder"))


@pytest.mark.parametrize("path", ["~no_such_user_/x", "a" * 5000, "a\x00b"], ids=["user", "endless", "nul"])
def test_paths_that_no_system_accepts_are_refused(store, path):
    with pytest.raises((BadInput, NotFound)):
        import_profile(store, path)


def test_a_relative_path_and_a_home_path_work(store, profile, monkeypatch):
    monkeypatch.chdir(profile.parent)
    monkeypatch.setenv("HOME", str(profile.parent))
    assert import_profile(store, "MI200").dispatches == import_profile(store, "~/MI200").dispatches == 2
    monkeypatch.chdir(profile)
    assert import_profile(store, ".").name == "mine"


def test_a_store_that_cannot_be_written_is_a_problem(tmp_path, profile):
    from rooflens.analysis.store.store import Store

    (tmp_path / "file").write_text("")
    with pytest.raises(StoreProblem, match="cannot be written"):
        import_profile(Store(tmp_path / "file" / "store"), str(profile))


def test_too_little_memory_is_a_problem_and_no_traceback(store, tmp_path, monkeypatch):
    folder = tmp_path / "wide"
    folder.mkdir()
    header = ",".join(f"SQ_C_{i}" for i in range(4000))
    lines = "\n".join(f"{n},k," + "1," * 3999 + "1" for n in range(200))
    (folder / "pmc_perf.csv").write_text(f"Dispatch_ID,Kernel_Name,{header}\n{lines}\n")
    monkeypatch.setattr("rooflens.tools.base.profile_files._MEMORY", "8MB")
    with pytest.raises(LimitExceeded, match="needs more than 8MB"):
        import_profile(store, str(folder))
    assert not store.scan()[0] and not list((store.root / "tmp").iterdir())


def test_warnings_are_kept_with_their_codes_and_those_of_old_workloads_are_read(store, profile):
    (profile / "pmc_perf.csv").write_text(ROWS.replace("10,20", "20,20"))
    done = import_profile(store, str(profile))
    manifest = store.resolve(done.workload)
    assert "no_timing" in [w.code for w in manifest.warnings] and [w.text for w in manifest.warnings] == done.warnings
    file = store.root / f"workload={done.workload}" / "manifest.json"
    content = json.loads(file.read_text())
    assert content["warnings"][0].keys() == {"code", "text"}
    file.write_text(json.dumps(content | {"warnings": ["Words alone."]}))
    assert store.resolve(done.workload).warnings == [Note("recorded", "Words alone.")]
