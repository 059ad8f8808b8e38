"""Profiles of known kernels as models of devices leave them, imported once; catalogues with planted errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from rooflens.analysis.catalogue import files, targets
from rooflens.analysis.counter_check import known_kernels
from rooflens.analysis.counter_check.known_kernels import KnownLaunch
from rooflens.analysis.counter_check.metric_verdicts import MetricJudgement
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.made import known_kernels_amd, known_kernels_nvidia
from rooflens.tools.import_profile import import_profile
from rooflens.tools.running import counter_check

Plant = Callable[[Mapping[str, list[tuple[str, str]]]], None]
SHIPPED = Path(files.__file__).parent


@dataclass(frozen=True)
class Played:
    """A device that was played: its profile in a store, and what was launched."""

    store: Store
    workload: str
    launches: list[KnownLaunch]
    said: dict[str, dict[str, float]]

    def judgements(self) -> dict[str, MetricJudgement]:
        """Every metric with the catalogue that is in use now."""
        with Workload.open(self.store, self.workload) as workload:
            return {one.metric.name: one for one in counter_check.judge_workload(workload, self.launches, self.said)}


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Played]:
    """The check of a target as the model of its device has it."""

    @cache
    def play(target: str) -> Played:
        folder = tmp_path_factory.mktemp(target)
        facts = {name: fact.value for name, fact in targets.gpu(target).facts.items()}
        store, said = Store(folder / "store"), {}
        if target in known_kernels_amd.DEVICES:
            device = known_kernels_amd.DEVICES[target]
            launches = known_kernels.launches(target, {**facts, "cu_per_gpu": device.cus})
            path = known_kernels_amd.written(folder / "profile", device, launches)
        else:
            launches = known_kernels.launches(target, {**facts, "cu_per_gpu": known_kernels_nvidia.SMS})
            path = known_kernels_nvidia.written(folder / "raw.csv", launches)
            said = {"known_spin": {"cycles": 400_000.0, "ns": 400_000.0 / known_kernels_nvidia.GHZ}}
        return Played(store, import_profile(store, str(path)).workload, launches, said)

    return play


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """A function that puts changes of text into copies of the catalogue's files, by file, and has them in use."""

    def plant(changes: Mapping[str, list[tuple[str, str]]]) -> None:
        for name, replaced in changes.items():
            text = (SHIPPED / "metrics" / name).read_text(encoding="utf-8")
            for old, new in replaced:
                assert text.count(old) >= 1, f"{old} is not in {name}"
                text = text.replace(old, new)
            copy = tmp_path / "catalogue" / "metrics" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        monkeypatch.setenv(files.VARIABLE, str(tmp_path / "catalogue"))
        _forget()

    yield plant
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    """The catalogue is read once in a process."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rooflens.analysis."):
            for member in list(vars(module).values()):
                if callable(clear := getattr(member, "cache_clear", None)) and member.__module__ == name:
                    clear()
