"""Which files of a run folder are read, and in which order."""

from __future__ import annotations

from rooflens.tools.base.profile_files import files_below, step_of


def made(folder, *names):
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")


def found(folder):
    return [str(f.relative_to(folder)) for f in files_below(folder, (".csv",))]


def test_times_come_first_and_numbers_count_by_value(tmp_path):
    made(tmp_path, "pass_10/a.csv", "pass_2/a.csv", "timing/a.csv", "pass_1/a.csv", "z.csv", "pass_1/notes.md")
    assert found(tmp_path) == ["z.csv", "timing/a.csv", "pass_1/a.csv", "pass_2/a.csv", "pass_10/a.csv"]


def test_a_link_out_of_the_folder_is_not_followed_and_a_file_stands_for_itself(tmp_path):
    made(tmp_path, "secret/a.csv", "run/pass_1/a.csv")
    (tmp_path / "run" / "out.csv").symlink_to(tmp_path / "secret" / "a.csv")
    (tmp_path / "run" / "pass_2").symlink_to(tmp_path / "secret")
    assert found(tmp_path / "run") == ["pass_1/a.csv"]
    file = tmp_path / "secret" / "a.csv"
    assert files_below(file, (".other",)) == [file] and files_below(tmp_path / "none", (".csv",)) == []


def test_the_step_of_a_file_is_its_folder_where_that_is_one(tmp_path):
    assert step_of(tmp_path / "pass_3" / "a.csv") == "pass_3" and step_of(tmp_path / "timing" / "a.csv") == "timing"
    assert step_of(tmp_path / "run_3" / "a.csv") is None
