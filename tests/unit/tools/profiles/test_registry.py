"""Which reader takes what, and what is said of everything else."""

from __future__ import annotations

import pytest

from rooflens.analysis.base.problems import BadArgument, BadInput
from rooflens.tools.profiles.registry import formats, reader_for


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("perf.data", b"PERFILE2\x68", "perf"),
        ("run.nsys-rep", b"NSYS", "Nsight Systems"),
        ("results.pftrace", b"text", "Perfetto"),
        ("4711_results.db.gz", b"\x1f\x8b\x08\x00", "unpack it"),
        ("workload.tar.gz", b"\x1f\x8b\x08\x00", "archive"),
    ],
)
def test_known_formats_without_a_reader_are_named_plainly(tmp_path, file, content, what):
    folder = tmp_path / "out" / "node01"
    folder.mkdir(parents=True)
    (folder / file).write_bytes(content)
    for path in (folder / file, folder, folder.parent):
        with pytest.raises(BadInput, match=what) as found:
            reader_for(path, "auto")
        assert "cannot read that format yet" in found.value.text and "rocprof-compute" in found.value.text


def test_what_is_no_profile_gets_the_list_of_formats(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(BadInput, match="not a profile that rooflens recognises") as found:
            reader_for(path, "auto")
        assert all(profiler.files in found.value.text for profiler in formats().values())


def test_an_unknown_format_suggests_known_ones(tmp_path):
    with pytest.raises(BadArgument, match="Near names: rocprof"):
        reader_for(tmp_path, "rocprof-v1")


def test_a_forced_format_that_does_not_fit_is_refused(bench):
    (bench.folder / "other").mkdir()
    (bench.folder / "other" / "a.csv").write_text("x,y\n1,2\n")
    for known in formats().values():
        for path in ("other", "other/a.csv"):
            with pytest.raises(BadInput):
                bench.load(bench.folder / path, format=known.name)
    assert bench.is_clean()
