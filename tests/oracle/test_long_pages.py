"""The pages of the documents that take long to follow; tests/system/docs follows all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.tests import ROOT
from rooflens.tests.system.docs.reader import Reader, blocks
from rooflens.tests.system.docs.test_commands import LONG


@pytest.mark.parametrize("name", LONG)
def test_a_page_can_be_followed_from_its_top(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Store
) -> None:
    Reader(tmp_path, monkeypatch, samples).follow(blocks((ROOT / name).read_text(encoding="utf-8")))
