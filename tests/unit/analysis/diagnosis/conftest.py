"""The diagnosis of the kernels with measured interventions."""

from __future__ import annotations

import sys

import pytest

from rooflens.analysis.diagnosis.findings import Diagnosis, diagnose
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests import ROOT
from rooflens.tests.support.recordings import stored

sys.path.insert(0, str(ROOT / "eval"))
from interventions import diagnoses


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Diagnosis]:
    store = Store(tmp_path_factory.mktemp("interventions"))
    stored(store, diagnoses.COUNTERS, diagnoses.NAME)
    return {one.kernel: one for one in diagnose(Workload.open(store, diagnoses.NAME))[0]}
