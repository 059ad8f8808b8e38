"""What the loading of a timeline refuses, and the cause that it states."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.base.notes import Note
from rooflens.analysis.base.problems import BadInput
from rooflens.analysis.store.store import Store
from rooflens.analysis.timeline.trace_loading import prepare
from rooflens.analysis.workload import Workload
from rooflens.tests.support.timelines import Made, publish


def refusal(folder: Path, *warnings: Note) -> BadInput:
    made, store = Made(), Store(folder)
    made.host("hipLaunchKernel", 0, 10)
    with Workload.open(store, publish(store, made, warnings=warnings)) as workload, pytest.raises(BadInput) as error:
        prepare(workload)
    return error.value


def test_without_device_work_the_cause_is_what_the_import_left_out(tmp_path: Path) -> None:
    left_out = Note("unknown_category", "9 events of another kind: Job (9).")
    error = refusal(tmp_path, Note("other", "Something else."), left_out)
    assert error.why == left_out.text and "Nothing was launched" not in error.text
    assert "gpu_memcpy" in error.fix and "ProfilerActivity" not in error.fix


def test_the_code_of_a_warning_decides_about_the_cause_and_not_its_words(tmp_path: Path) -> None:
    other = Note("other", "9 events of unknown categories may be work of a device.")
    for error in (refusal(tmp_path / "other", other), refusal(tmp_path / "none")):
        assert "nothing was launched" in error.why and "ProfilerActivity" in error.fix
