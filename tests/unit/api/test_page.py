"""What docs/how-to/notebooks.md shows runs as it stands, in its order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rooflens.tests import ROOT

PAGE = ROOT / "docs" / "how-to" / "notebooks.md"


def test_every_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROOFLENS_STORE", str(tmp_path / "store"))
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "Near names: yax_before" in capsys.readouterr().out
    assert names["m"].attrs["units"] and len(names["both"])
