"""What the files of the targets say of them beside numbers: names, dies, defects of profilers, relatives."""

from __future__ import annotations

import pytest

from rooflens.analysis.catalogue import targets
from rooflens.analysis.catalogue.targets import ProfilerDefect, as_on_target, find_target, gpu, holds

CHIPLETS = {"gfx942", "gfx950"}


def test_each_file_is_named_as_its_target_and_no_name_means_two() -> None:
    names = [name for target in targets.targets() for name in (gpu(target).target, *gpu(target).also)]
    assert set(targets.targets()) <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gfx90a", "gfx90a"),
        ("gfx940", "gfx942"),
        ("gfx9-4-generic", "gfx942"),
        ("gfx999", None),
        ("", None),
        (None, None),
    ],
)
def test_a_target_is_found_by_any_of_its_names(name: str | None, target: str | None) -> None:
    stated = find_target(name)
    assert (stated.target if stated else None) == target


def test_dies() -> None:
    assert {t for t in targets.targets() if gpu(t).chiplets} == CHIPLETS
    assert [gpu(t).l2_channels(dies) for t, dies in (("gfx942", 6), ("gfx90a", 1), ("gfx906", 1), ("sm_90", 1))] == [
        96, 32, 16, 0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "timestamps", "registers"),
    [
        ((), False, True),
        ((6, 2, 4), False, True),
        ((6, 3, 0), True, True),
        ((6, 4, 2), False, True),
        ((7, 1), False, False),
    ],
)
def test_releases_with_a_defect(release: tuple[int, ...], timestamps: bool, registers: bool) -> None:
    assert gpu("gfx942").defect[0].concerns(release) is timestamps
    assert gpu("gfx950").defect[0].concerns(release) is registers
    assert ProfilerDefect(code="c", text="t", before="7").concerns(())


def test_changes_of_the_vendor_come_before_those_of_the_target() -> None:
    entry = {
        "a": 1,
        "b": 1,
        "c": 1,
        "gpus": ["gfx90a"],
        "on": {"gfx90a": {"c": 3}, "amd": {"b": 2, "c": 2}, "gfx942": {"a": 9}},
    }
    assert as_on_target(entry, "gfx90a") == {"a": 1, "b": 2, "c": 3}
    assert holds(None, "sm_90") and holds(["gfx90a"], "gfx90a") and not holds(["gfx90a"], "gfx942")


def test_a_relative_takes_over_what_is_stated_for_the_other_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    relative = gpu("gfx942").model_copy(update={"target": "mine", "like": "gfx942"})
    monkeypatch.setattr(targets, "gpu", lambda name: relative if name == "mine" else gpu(name))
    monkeypatch.setattr(targets, "_lineage", targets._lineage.__wrapped__)
    assert holds(["gfx942"], "mine") and holds(["mine"], "mine") and not holds(["gfx90a"], "mine")
    assert not holds(["mine"], "gfx942")
    entry = {"on": {"mine": {"a": 2}, "gfx942": {"a": 1, "b": 1}}}
    assert as_on_target(entry, "mine") == {"a": 2, "b": 1}
